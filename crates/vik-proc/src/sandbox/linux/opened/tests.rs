use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::fstat;

use super::*;
use crate::sandbox::readable::Direct;

fn list(paths: &[PathBuf]) -> HiddenList {
    let sandbox = Sandbox {
        read: Reads::AllBut {
            hidden: paths.to_owned(),
            shown: Vec::new(),
        },
        ..Sandbox::default()
    };
    HiddenList::of(&sandbox).unwrap()
}

/// Returns the readable places of a list, as a shim would get them; `None` where this system
/// reports no changes. Programs that change other folders meanwhile are waited for.
fn places<'a>(kept: &'a mut KeptPlaces, list: &HiddenList) -> Option<&'a [Rc<Place>]> {
    while !kept.lists.contains_key(list) {
        kept.prepare(list);
    }
    kept.prepare(list);
    if !kept.lists.contains_key(list) {
        return places(kept, list);
    }
    kept.lists[list].as_deref()
}

/// Returns the files and folders below `root` by their devices and inodes.
fn below<'a>(root: &Path, places: impl Iterator<Item = &'a Place>) -> BTreeSet<(u64, u64)> {
    let is_below = |place: &&Place| {
        let path = fs::read_link(format!("/proc/self/fd/{}", place.as_fd().as_raw_fd()));
        path.is_ok_and(|path| path.starts_with(root))
    };
    let identity = |place: &Place| {
        let facts = fstat(place.as_fd()).unwrap();
        (facts.st_dev, facts.st_ino)
    };
    places.filter(is_below).map(identity).collect()
}

fn fresh(root: &Path, list: &HiddenList) -> BTreeSet<(u64, u64)> {
    let parts = all_but(&list.paths(), &mut Direct);
    let places: Vec<Place> = parts.iter().flat_map(files::open_entries).collect();
    below(root, places.iter())
}

const NAMES: [&str; 12] = [
    "a", "a/x", "a/k", "a/k/f", "a/k/g", "b", "b/x", "b/k", "b/k/f", "c", "c/d", "c/d/e",
];

/// Changes the tree; what is impossible changes nothing.
fn change(root: &Path, kind: u8, one: usize, other: usize) {
    let (one, other) = (root.join(NAMES[one]), root.join(NAMES[other]));
    let _ = match kind {
        0 => fs::write(&one, "").or_else(|_| fs::create_dir(&one)),
        1 => fs::create_dir_all(&one),
        2 => fs::remove_file(&one).or_else(|_| fs::remove_dir_all(&one)),
        3 => fs::rename(&one, &other),
        4 => {
            let flags = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &one, AT_FDCWD, &other, flags).map_err(Into::into)
        }
        5 => fs::remove_file(&one).and_then(|()| symlink(&other, &one)),
        6 => symlink(&other, &one),
        _ => fs::hard_link(&one, &other),
    };
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn kept_places_are_those_of_a_fresh_search(
        lists in proptest::collection::vec(proptest::collection::vec(0usize..NAMES.len(), 1..4), 1..3),
        steps in proptest::collection::vec(
            (proptest::collection::vec((0u8..8, 0usize..NAMES.len(), 0usize..NAMES.len()), 0..3), 0usize..3),
            1..12,
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a/k", "b/k", "c/d"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["a/x", "a/k/f", "b/k/f", "c/d/e"] {
            fs::write(root.join(name), "").unwrap();
        }
        let lists: Vec<HiddenList> = lists
            .iter()
            .map(|hidden| list(&hidden.iter().map(|&name| root.join(NAMES[name])).collect::<Vec<_>>()))
            .collect();
        let mut kept = KeptPlaces::new();
        for (changes, chosen) in steps {
            for (kind, one, other) in changes {
                change(&root, kind, one, other);
            }
            let list = &lists[chosen % lists.len()];
            let Some(places) = places(&mut kept, list) else { return Ok(()) };
            let found = below(&root, places.iter().map(|place| &**place));
            proptest::prop_assert_eq!(found, fresh(&root, list));
        }
    }
}

#[test]
fn unchanged_places_stay_open_and_others_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["one", "other"] {
        fs::create_dir(root.join(name)).unwrap();
        for file in ["key", "file"] {
            fs::write(root.join(name).join(file), "").unwrap();
        }
    }
    let list = list(&[root.join("one/key"), root.join("other/key")]);
    let mut kept = KeptPlaces::new();
    let at = |kept: &KeptPlaces, name: &str| {
        let folder = &kept.folders[&root.join(name)];
        Rc::downgrade(&folder.opened[&OsString::from("file")])
    };
    if places(&mut kept, &list).is_none() {
        return;
    }
    let (one, other) = (at(&kept, "one"), at(&kept, "other"));
    places(&mut kept, &list);
    assert!(one.ptr_eq(&at(&kept, "one")));
    fs::write(root.join("one/new"), "").unwrap();
    places(&mut kept, &list);
    assert_eq!(one.strong_count(), 0);
    // Another program may have changed a folder above meanwhile.
    assert!(other.strong_count() == 0 || other.ptr_eq(&at(&kept, "other")));
    let one = at(&kept, "one");
    let open = kept.open.iter().any(|(first, last)| {
        let place = one.upgrade().unwrap();
        (*first..=*last).contains(&place.as_fd().as_raw_fd())
    });
    assert!(open && !kept.is_empty());
    kept.clear();
    assert!(kept.is_empty() && one.strong_count() == 0);
}

#[test]
fn nothing_is_kept_beyond_the_bound_or_without_reports() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let hidden = list(&[root.join("key")]);
    let mut kept = KeptPlaces::new();
    kept.max_descriptors = 3;
    assert!(places(&mut kept, &hidden).is_none());
    assert!(kept.open.is_empty() && kept.folders.is_empty());
    let mut kept = KeptPlaces::new();
    assert!(places(&mut kept, &list(&["/proc/self/environ".into()])).is_none());
    assert!(kept.open.is_empty() && Box::new(kept).in_child(Some(hidden)).is_none());
}

#[test]
fn places_are_used_for_the_same_list_only() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut sandbox = Sandbox {
        read: Reads::AllBut {
            hidden: vec![root.join("key")],
            shown: Vec::new(),
        },
        ..Sandbox::default()
    };
    let mut kept = KeptPlaces::new();
    let list = HiddenList::of(&sandbox).unwrap();
    if places(&mut kept, &list).is_none() {
        return;
    }
    let opened = Box::new(kept).in_child(Some(list)).unwrap();
    assert!(opened.of(&sandbox).is_some());
    if let Reads::AllBut { hidden, .. } = &mut sandbox.read {
        hidden.push(root.join("more"));
    }
    assert!(opened.of(&sandbox).is_none());
}

#[test]
fn hidden_list_round_trips_or_is_not_sent() {
    let of = |backend, hidden: &[&str]| {
        HiddenList::of(&Sandbox {
            backend,
            read: Reads::AllBut {
                hidden: hidden.iter().map(PathBuf::from).collect(),
                shown: Vec::new(),
            },
            ..Sandbox::default()
        })
    };
    let list = of(Backend::Landlock, &["/a b/\n", "/c"]).unwrap();
    assert_eq!(list.paths(), [Path::new("/a b/\n"), Path::new("/c")]);
    assert_eq!(HiddenList::parse(list.as_bytes()), Some(list));
    for unsent in [&[][..], &["/a\0/b"], &["/x".repeat(MAX_LIST).as_str()]] {
        assert_eq!(of(Backend::Landlock, unsent), None);
    }
    assert_eq!(of(Backend::Bubblewrap, &["/a"]), None);
    assert_eq!(HiddenList::parse(b""), None);
    assert_eq!(HiddenList::parse(b"/cut"), None);
}

#[test]
fn numbers_become_ranges() {
    assert_eq!(ranges(vec![5, 3, 4, 9, 7, 8]), [(3, 5), (7, 9)]);
    assert_eq!(ranges(Vec::new()), []);
}
