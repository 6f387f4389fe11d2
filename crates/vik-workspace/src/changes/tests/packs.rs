//! Contents in packs.

use super::*;

fn store(folder: &TempDir) -> Store {
    Store::new(&folder.path().join("contents"))
}

fn content(number: usize) -> Vec<u8> {
    format!("content {number}\n").repeat(number + 1).into_bytes()
}

/// Stores contents and returns their hashes.
fn put(store: &Store, numbers: std::ops::Range<usize>, own_files: usize) -> Vec<ContentHash> {
    let mut batch = store.batch(own_files);
    let hashes = numbers.map(|number| batch.put(&content(number)).unwrap());
    let hashes = hashes.collect();
    batch.finish().unwrap();
    hashes
}

/// Returns the names of the files that a store consists of, without those of their folders.
fn files(folder: &TempDir, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.path().join("contents").join(part)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn batch_stores_many_contents_in_one_pack() {
    let folder = tempfile::tempdir().unwrap();
    let hashes = put(&store(&folder), 0..20, 3);
    assert_eq!(files(&folder, "packs").len(), 2);
    assert_eq!(files(&folder, "").len(), 5);
    let store = store(&folder);
    for (number, hash) in hashes.iter().enumerate() {
        assert_eq!(hash_of(&content(number)), *hash);
        assert_eq!(store.get(*hash), Some(content(number)));
        assert!(store.batch(0).has(*hash));
    }
    assert_eq!(store.get(hash_of(b"other")), None);
    // Nothing is stored twice, neither by the same store nor by another one.
    put(&store, 0..20, 0);
    assert_eq!(store.put(&content(7)).unwrap(), hashes[7]);
    assert_eq!(files(&folder, "").len(), 5);
}

#[test]
fn unfinished_batch_leaves_no_pack() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let mut batch = store.batch(0);
    let hash = batch.put(b"1\n").unwrap();
    assert!(!batch.has(hash));
    assert_eq!(files(&folder, "packs").len(), 1);
    drop(batch);
    assert_eq!(files(&folder, "packs"), Vec::<PathBuf>::new());
    assert_eq!(store.get(hash), None);
}

#[test]
fn damaged_pack_counts_as_missing_and_is_written_again() {
    for hurt in [
        "pack cut",
        "pack flipped",
        "pack removed",
        "index cut",
        "index flipped",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let hashes = put(&store(&folder), 0..3, 0);
        let (part, how) = hurt.split_once(' ').unwrap();
        let packs = files(&folder, "packs");
        let path = packs
            .iter()
            .find(|path| path.extension().unwrap() == part)
            .unwrap();
        let mut bytes = std::fs::read(path).unwrap();
        match how {
            "cut" => drop(bytes.pop()),
            _ => bytes[20] ^= 1,
        }
        match how {
            "removed" => std::fs::remove_file(path).unwrap(),
            _ => std::fs::write(path, bytes).unwrap(),
        }
        let store = store(&folder);
        // A content that is not the one of its hash is never returned.
        let found = hashes.iter().filter_map(|hash| store.get(*hash));
        let expected = if hurt == "pack flipped" { 2 } else { 0 };
        assert_eq!(found.count(), expected, "{hurt}");
        if hurt == "pack flipped" {
            continue;
        }
        put(&store, 0..3, 0);
        for (number, hash) in hashes.iter().enumerate() {
            assert_eq!(store.get(*hash), Some(content(number)), "{hurt}");
        }
        store.retain(|_| true).unwrap();
        assert_eq!(files(&folder, "packs").len(), 2, "{hurt}");
    }
}

#[test]
fn retain_removes_unwanted_contents_of_packs() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let hashes = put(&store, 0..20, 0);
    let stored = |store: &Store| -> Vec<usize> {
        let found = hashes.iter().map(|hash| store.get(*hash));
        let found = found.enumerate().filter(|(_, found)| found.is_some());
        found.map(|(number, _)| number).collect()
    };
    std::fs::write(folder.path().join("contents/packs/unfinished.pack"), "1").unwrap();
    let before = files(&folder, "packs");
    // Most of it is wanted: the pack stays.
    store.retain(|hash| hash != hashes[0]).unwrap();
    assert_eq!(stored(&store), Vec::from_iter(0..20));
    assert_eq!(files(&folder, "packs").len(), before.len() - 1);
    store.retain(|hash| hashes[3..5].contains(&hash)).unwrap();
    assert_eq!(stored(&store), [3, 4]);
    assert_eq!(files(&folder, "packs").len(), 2);
    let size = |path: &PathBuf| path.metadata().unwrap().len() as usize;
    let pack = files(&folder, "packs")
        .into_iter()
        .find(|path| path.extension().unwrap() == "pack");
    assert_eq!(size(&pack.unwrap()), content(3).len() + content(4).len());
    store.retain(|_| false).unwrap();
    assert_eq!(stored(&store), Vec::<usize>::new());
    assert_eq!(files(&folder, "packs"), Vec::<PathBuf>::new());
}
