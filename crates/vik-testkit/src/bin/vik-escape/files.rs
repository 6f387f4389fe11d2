//! Files outside: directly, through links, and in races.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::{Plan, report, report_all, text};

pub(crate) fn try_out(plan: &Plan) {
    let there = plan.outside.join("there");
    report("create", fs::write(plan.outside.join("new"), "x").map_err(text));
    report("overwrite", fs::write(&there, "x").map_err(text));
    let append = OpenOptions::new().append(true).open(&there);
    report("append", append.map(drop).map_err(text));
    let truncate = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_TRUNC)
        .open(&there);
    report(
        "truncate at open",
        truncate.and_then(|_| truncate_file(&there)).map_err(text),
    );
    let path = nix::unistd::truncate(&there, 0);
    report("truncate by path", path.map_err(text));
    report("remove", fs::remove_file(&there).map_err(text));
    report(
        "make a folder",
        fs::create_dir(plan.outside.join("folder")).map_err(text),
    );
    for (number, secret) in plan.secrets.iter().enumerate() {
        report(
            &format!("read {number}"),
            fs::read(secret).map(drop).map_err(text),
        );
        let folder = secret.parent().expect("a file is in a folder");
        report(
            &format!("list {number}"),
            fs::read_dir(folder).map(drop).map_err(text),
        );
    }
    for (number, place) in plan.guarded.iter().enumerate() {
        report(&format!("write {number}"), write_into(place).map_err(text));
    }
    let workdir = std::env::current_dir().unwrap_or_default();
    let another = [workdir.with_file_name("2")];
    report_all("look into another issue's workspace", &another, |folder| {
        fs::read_dir(folder).map(drop)
    });
    report_all("read what another issue's agent made", &another, |folder| {
        fs::read(folder.join("own")).map(drop)
    });
    report_all("write into another issue's workspace", &another, write_into);
    let of_vik = paths_of_vik(plan);
    report_all("read what is Vik's", &of_vik, |path| {
        let read = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(path);
        read.map(drop)
    });
    report_all("write what is Vik's", &of_vik, |path| {
        let write = OpenOptions::new()
            .append(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(path);
        write.map(drop)
    });
    report_all("remove what is Vik's", &of_vik, |path| fs::remove_file(path));
}

/// Returns the paths of the daemon, as the test found them.
pub(crate) fn paths_of_vik(plan: &Plan) -> Vec<PathBuf> {
    let list = fs::read_to_string(plan.runtime_dir.join("vik")).unwrap_or_default();
    list.lines().map(PathBuf::from).collect()
}

/// Puts a file into a folder, or opens a file.
fn write_into(place: &Path) -> std::io::Result<()> {
    if place.is_dir() {
        fs::write(place.join("planted"), "x")
    } else {
        OpenOptions::new().write(true).open(place).map(drop)
    }
}

fn truncate_file(path: &Path) -> std::io::Result<()> {
    if fs::metadata(path)?.len() == 0 {
        Ok(())
    } else {
        Err(std::io::Error::other("it kept its content"))
    }
}

pub(crate) fn links(plan: &Plan) {
    let there = plan.outside.join("there");
    let _ = symlink(&plan.outside, "way-out");
    report(
        "write through a link",
        fs::write("way-out/linked", "x").map_err(text),
    );
    report("link a file in", fs::hard_link(&there, "hard").map_err(text));
    let _ = fs::write("own", "x");
    report(
        "link a file out",
        fs::hard_link("own", plan.outside.join("hard")).map_err(text),
    );
    report("move a file in", fs::rename(&there, "moved").map_err(text));
    report(
        "move a file out",
        fs::rename("own", plan.outside.join("moved")).map_err(text),
    );
    report("put a link in place of the workspace", swap(plan).map_err(text));
    // A folder is exchanged for a link while it is written through.
    let race = std::thread::spawn(|| {
        for _ in 0..2000 {
            let _ = fs::create_dir("race");
            let _ = fs::remove_dir_all("race");
            let _ = symlink("way-out", "race");
            let _ = fs::remove_file("race");
        }
    });
    while !race.is_finished() {
        let _ = fs::write("race/raced", "x");
    }
    report("race a link", was_created(&plan.outside.join("raced")));
    // The same with a name that alternates between its own file and one from outside.
    let target = there.clone();
    let race = std::thread::spawn(move || {
        for _ in 0..2000 {
            let _ = fs::write("turn", "x");
            let _ = fs::remove_file("turn");
            let _ = fs::hard_link(&target, "turn");
            let _ = fs::remove_file("turn");
        }
    });
    while !race.is_finished() {
        let _ = fs::write("turn", "raced");
    }
    let kept = fs::read_to_string(&there).is_ok_and(|text| text != "raced");
    let raced = if kept {
        Err("it kept its content".to_owned())
    } else {
        Ok(())
    };
    report("race a hard link", raced);
}

/// Puts a link to the outside in place of the workspace.
pub(crate) fn swap(plan: &Plan) -> std::io::Result<()> {
    let workdir = std::env::current_dir()?;
    fs::rename(&workdir, workdir.with_extension("aside")).and_then(|()| symlink(&plan.outside, &workdir))
}

fn was_created(path: &Path) -> Result<(), String> {
    if path.exists() {
        Ok(())
    } else {
        Err("nothing came there".to_owned())
    }
}
