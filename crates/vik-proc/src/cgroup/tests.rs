use super::*;

#[test]
fn mount_of_finds_version_2_beside_version_1() {
    let mounts = b"30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n\
            31 30 0:27 / /sys/fs/cgroup/cpu rw shared:10 - cgroup cgroup rw,cpu\n\
            33 30 0:29 /inner /mnt rw shared:11 - cgroup2 cgroup2 rw\n\
            32 30 0:28 / /sys/fs/cgroup/unified rw shared:11 master:2 - cgroup2 cgroup2 rw,nsdelegate\n";
    assert_eq!(mount_of(mounts), Some("/sys/fs/cgroup/unified".into()));
    assert_eq!(mount_of(b"nonsense\n"), None);
}

#[test]
fn parent_groups_are_found_as_far_as_mounted() {
    let mounts = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            31 30 0:27 /docker/x /sys/fs/cgroup/pids rw shared:1 - cgroup cgroup rw,pids\n\
            32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let folders = |version_1, group| {
        let folders = folders_of(mounts, version_1, group).into_iter();
        folders
            .map(|folder| folder.display().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        folders(true, "/docker/x/a/b"),
        [
            "/sys/fs/cgroup/pids/a/b",
            "/sys/fs/cgroup/pids/a",
            "/sys/fs/cgroup/pids/"
        ]
    );
    assert_eq!(folders(true, "/elsewhere"), [""; 0]);
    assert_eq!(
        folders(false, "/a"),
        ["/sys/fs/cgroup/unified/a", "/sys/fs/cgroup/unified/"]
    );
}

#[test]
fn ordinary_folder_is_not_a_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vik-1-2");
    assert_eq!(Cgroup::at(&path), None);
    fs::create_dir(&path).unwrap();
    assert_eq!(Cgroup::at(&path), None);
}

/// The files have the format that the kernel writes.
#[test]
fn overrun_is_read_from_the_files_of_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let group = Cgroup {
        folder: folder.path().to_owned(),
    };
    let limits = SandboxLimits {
        memory: Some(1000),
        processes: Some(7),
        disk: None,
    };
    assert_eq!(group.overrun(limits), None);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "memory.events",
        "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n",
    );
    write("pids.events", "max 0\n");
    assert_eq!(group.overrun(limits), None);
    write("pids.events", "max 3\n");
    write("pids.max", "112\n");
    let tasks = Overrun::Tasks {
        used: 112,
        limit: 112,
    };
    assert_eq!(group.overrun(limits), Some(tasks));
    write(
        "memory.events",
        "low 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n",
    );
    write("memory.peak", "1024\n");
    let memory = Overrun::Memory {
        used: 1024,
        limit: 1000,
    };
    assert_eq!(group.overrun(limits), Some(memory));
    assert_eq!(group.overrun(SandboxLimits::default()), None);
}

#[test]
fn limits_are_set_where_the_parent_group_delegates() {
    let folder = tempfile::tempdir().unwrap();
    let group = Cgroup {
        folder: folder.path().join("vik-1-2"),
    };
    fs::create_dir(&group.folder).unwrap();
    let limits = SandboxLimits {
        memory: Some(1000),
        processes: Some(7),
        disk: None,
    };
    let read = |name: &str| fs::read_to_string(group.folder.join(name)).ok();
    // A group that contains processes refuses the configuration.
    fs::create_dir(folder.path().join("cgroup.subtree_control")).unwrap();
    group.limit(limits, u64::MAX);
    assert_eq!((read("memory.max"), read("pids.max")), (None, None));
    fs::remove_dir(folder.path().join("cgroup.subtree_control")).unwrap();
    fs::write(folder.path().join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
    group.limit(limits, u64::MAX);
    let set = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"].map(read);
    let wanted = ["1000", "0", "1", "112"].map(|value| Some(value.to_owned()));
    assert_eq!(set, wanted);
    let above = folder.path();
    assert_eq!(divisible(above), ["memory", "processes"]);
    fs::write(above.join("cgroup.subtree_control"), "").unwrap();
    assert_eq!(divisible(above), [""; 0]);
    fs::write(above.join("cgroup.controllers"), "cpu pids\n").unwrap();
    assert_eq!(divisible(above), ["processes"]);
    fs::write(above.join("cgroup.procs"), "1\n").unwrap();
    fs::write(above.join("cgroup.events"), "populated 1\n").unwrap();
    assert_eq!(divisible(above), [""; 0]);
}

#[test]
fn service_group_is_recognised_by_its_suffix() {
    for (group, service) in [
        ("/a/vik.service", true),
        ("/a/run-1.scope", true),
        ("/a/app.slice", false),
        ("/a", false),
    ] {
        assert_eq!(is_service(Path::new(group)), service, "{group}");
    }
}

/// Prints a line when it is skipped, as the kernel divides nothing here.
#[test]
fn process_limit_is_enforced_by_the_kernel() {
    let id = ProcessId {
        pid: ProcessId::current().pid,
        start_time: u64::MAX - 1,
    };
    let limits = SandboxLimits {
        processes: Some(1),
        ..SandboxLimits::default()
    };
    let made = Cgroup::make(&OwnGroups::read(), id).inspect(|group| group.limit(limits, u64::MAX));
    let limited = made
        .clone()
        .filter(|group| group.folder.join("pids.max").exists());
    let Some(group) = limited else {
        let _ = io::Write::write_all(
            &mut io::stderr(),
            b"skipped: process_limit_is_enforced_by_the_kernel: no cgroup v2 divides tasks here\n",
        );
        made.iter().for_each(Cgroup::remove);
        return;
    };
    let storm = "read go; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do sleep 600 & done; wait";
    let mut child = std::process::Command::new("sh")
        .args(["-c", storm])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    fs::write(group.folder.join("cgroup.procs"), child.id().to_string()).unwrap();
    drop(child.stdin.take());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let overrun = loop {
        let overrun = group.overrun(limits);
        if overrun.is_some() || std::time::Instant::now() > deadline {
            break overrun;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let tasks = group.members().len();
    group.kill();
    child.wait().unwrap();
    while group.is_populated().unwrap_or(false) {
        std::thread::yield_now();
    }
    group.remove();
    assert_eq!(overrun, Some(Overrun::Tasks { used: 16, limit: 16 }));
    assert!(tasks <= 16, "{tasks}");
}

/// Passes without a check where no group can be created.
#[test]
fn kill_ends_a_group_with_its_subgroups() {
    let id = ProcessId {
        pid: ProcessId::current().pid,
        start_time: u64::MAX,
    };
    let Some(group) = Cgroup::make(&OwnGroups::read(), id) else {
        return;
    };
    assert_eq!(Cgroup::at(group.folder()), Some(group.clone()));
    assert!(!group.is_populated().unwrap());
    let inner = group.folder().join("inner");
    fs::create_dir(&inner).unwrap();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(inner.join("cgroup.procs"), child.id().to_string()).unwrap();
    assert!(group.is_populated().unwrap());
    assert_eq!(group.members().len(), 1);
    group.kill();
    child.wait().unwrap();
    assert!(!group.is_populated().unwrap());
    group.remove();
    assert_eq!(Cgroup::at(group.folder()), None);
}
