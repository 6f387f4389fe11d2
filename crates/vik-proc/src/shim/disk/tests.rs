use std::fs::File;
use std::io::Write;

use super::*;

const MIB: usize = 1 << 20;

fn taken(place: &Path, since: SystemTime) -> Taken {
    let mut count = Count::new(fs::metadata(place).unwrap().dev(), since);
    count.files(place);
    count.nameless(i32::try_from(std::process::id()).unwrap());
    count.taken
}

fn write(path: &Path, bytes: usize) -> File {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![1; bytes]).unwrap();
    file.sync_all().unwrap();
    file
}

/// Checks until the search has found what the tree uses.
fn overrun_of(disk: &mut Disk) -> Overrun {
    loop {
        if let Some(overrun) = disk.check(Instant::now(), Vec::new) {
            return overrun;
        }
        std::thread::yield_now();
    }
}

#[test]
fn new_files_count_once_and_old_files_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (folder.path().join("a"), folder.path().join("b"));
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    write(&root.join("deep/er/one"), MIB);
    fs::hard_link(root.join("deep/er/one"), root.join("two")).unwrap();
    write(&elsewhere.join("far"), 4 * MIB);
    std::os::unix::fs::symlink(&elsewhere, root.join("link")).unwrap();
    let sum = taken(&root, SystemTime::now() - Duration::from_secs(60));
    assert!(
        (MIB..2 * MIB).contains(&usize::try_from(sum.room.bytes).unwrap()),
        "{sum:?}"
    );
    // Three folders, one file with two names, and a link.
    assert_eq!((sum.room.files, sum.hidden), (5, false));
    let later = taken(&root, SystemTime::now() + Duration::from_secs(3600));
    assert_eq!(later, Taken::default());
}

#[test]
fn deleted_file_counts_while_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone");
    let since = SystemTime::now() - Duration::from_secs(60);
    let before = taken(folder.path(), since);
    let open = write(&path, 3 * MIB);
    fs::remove_file(&path).unwrap();
    let sum = taken(folder.path(), since);
    assert!(
        sum.room.bytes >= before.room.bytes + 3 * MIB as u64,
        "{before:?} {sum:?}"
    );
    drop(open);
}

#[test]
fn unreachable_folder_counts_as_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let name = "d".repeat(250);
    let opened = nix::dir::Dir::open(folder.path(), OFlag::O_DIRECTORY, Mode::empty());
    let mut at = opened.unwrap();
    for _ in 0..20 {
        let mode = Mode::S_IRWXU;
        nix::sys::stat::mkdirat(&at, name.as_str(), mode).unwrap();
        at = nix::dir::Dir::openat(&at, name.as_str(), OFlag::O_DIRECTORY, mode).unwrap();
    }
    assert!(taken(folder.path(), UNIX_EPOCH).hidden);
}

#[test]
fn tree_is_not_blamed_for_the_disk_use_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let places = [folder.path().to_owned()];
    let mut disk = Disk::watch(&places, &[], DiskLimit::Bytes(64 << 20));
    // Other programs have used the space: to the tree it looks as if all of the disk was free
    // before.
    disk.systems[0].free_at_start.bytes = u64::MAX;
    let mut found = disk.check(Instant::now(), Vec::new);
    assert!(disk.search.is_some());
    while disk.search.is_some() {
        found = disk.check(Instant::now(), Vec::new);
        std::thread::yield_now();
    }
    assert_eq!(found, None);
    // The search is not repeated at once.
    assert!(disk.next_search_at > Instant::now());
    write(&folder.path().join("flood"), 65 << 20);
    disk.next_search_at = Instant::now();
    let overrun = overrun_of(&mut disk);
    let Overrun::Disk { used, limit } = overrun else {
        panic!("{overrun:?}")
    };
    assert!(used > limit && limit == 64 << 20);
}

#[test]
fn kept_output_counts_alone_and_in_the_total() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    let kept = [folder.path().join("raw"), folder.path().join("log")];
    let limit = DiskLimit::Bytes(8 << 20);
    let mut disk = Disk::watch(std::slice::from_ref(&work), &kept, limit);
    let open = write(&kept[0], 5 * MIB);
    assert_eq!(disk.check(Instant::now(), Vec::new), None);
    // The size before the truncation still counts.
    open.set_len(0).unwrap();
    write(&kept[1], 4 * MIB);
    let Some(Overrun::Disk {
        used,
        limit: 0x80_0000,
    }) = disk.check(Instant::now(), Vec::new)
    else {
        panic!("{disk:?}")
    };
    assert!((9 << 20..10 << 20).contains(&used), "{used}");

    let mut disk = Disk::watch(std::slice::from_ref(&work), &kept[1..], limit);
    disk.systems[0].free_at_start.bytes = u64::MAX;
    write(&work.join("file"), 5 * MIB);
    let overrun = overrun_of(&mut disk);
    assert!(
        matches!(overrun, Overrun::Disk { used, .. } if used > 9 << 20),
        "{overrun:?}"
    );
}

#[test]
fn pause_between_checks_shrinks_near_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let pause = |limit| {
        let mut disk = Disk::watch(&[folder.path().to_owned()], &[], DiskLimit::Bytes(limit));
        disk.check(Instant::now(), Vec::new);
        disk.pause()
    };
    assert_eq!(pause(1 << 20), CHECK_INTERVAL.0);
    assert!((CHECK_INTERVAL.0..CHECK_INTERVAL.1).contains(&pause(200 << 20)));
}

#[test]
fn empty_files_are_bounded_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Disk::watch(&[folder.path().to_owned()], &[], DiskLimit::HalfOfFree);
    let system = &mut disk.systems[0];
    assert!(system.limit.files > 0);
    // The file system has few free inodes, and other programs use it all the time.
    system.free_at_start.files = u64::MAX;
    system.limit.files = 100;
    for at in 0..60 {
        fs::create_dir(folder.path().join(format!("folder{at}"))).unwrap();
        File::create(folder.path().join(format!("empty{at}"))).unwrap();
    }
    let overrun = overrun_of(&mut disk);
    let (used, limit) = (121, 100);
    assert_eq!(overrun, Overrun::Files { used, limit });
}

#[test]
fn discount_of_kept_files_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, discount) = (folder.path().join("kept"), folder.path().join("discount"));
    write(&kept, 3 * MIB);
    let over = |discount: &Path| {
        let limit = DiskLimit::Bytes(2 * MIB as u64);
        let disk = Disk::watch(&[], std::slice::from_ref(&kept), limit);
        let mut disk = disk.discounted_by(Some(discount.to_owned()));
        disk.check(Instant::now(), Vec::new)
    };
    assert!(over(&discount).is_some());
    File::create(&discount)
        .unwrap()
        .set_len(3 * MIB as u64 / 2)
        .unwrap();
    assert_eq!(over(&discount), None);
    // No more is left out than the limit.
    write(&kept, 5 * MIB);
    File::create(&discount).unwrap().set_len(5 * MIB as u64).unwrap();
    assert!(over(&discount).is_some());
}
