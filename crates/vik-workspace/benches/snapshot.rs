//! Measures the snapshots of a large workspace: a clean clone with 60,000 files and 720 MB, before
//! and after an agent, for the first attempt and for a later one.
//! `cargo bench -p vik-workspace --bench snapshot`; a folder as argument is kept and used again.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench may stop at once, and prints what it measured"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use vik_workspace::changes::{Base, Bounds, Snapshot, Store};
use vik_workspace::fingerprint;

const FOLDERS: usize = 600;
const FILES_PER_FOLDER: usize = 100;
const FILE_BYTES: usize = 12_000;

fn main() {
    let temporary = tempfile::tempdir_in("/var/tmp").unwrap();
    let given = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let folder = given.map_or_else(|| temporary.path().to_owned(), Into::into);
    let work = folder.join("work");
    if !work.exists() {
        make_clone(&folder, &work);
    }
    let _ = fs::remove_dir_all(folder.join("contents"));
    let store = Store::new(&folder.join("contents"));
    let open = || File::open(&work).unwrap();
    let take =
        |earlier: Option<&Snapshot>| Base::take(&store, open(), &work, earlier, Bounds::default()).unwrap();

    println!("{:<44} {:>9} {:>9}", "", "wall ms", "CPU ms");
    let first = measure("first attempt: before the agent", || take(None));
    let text = measure("  as JSON", || serde_json::to_vec(&first).unwrap());
    let first: Base = measure("  from JSON", || serde_json::from_slice(&text).unwrap());
    let (changes, last) = measure("  after the agent", || {
        first.changes(&store, open(), &work, Bounds::default()).unwrap()
    });
    assert!(changes.files.is_empty() && changes.tree == changes.base_tree);
    let text = serde_json::to_vec(&last).unwrap();
    let later = measure("later attempt: before the agent, with JSON", || {
        let last: Snapshot = serde_json::from_slice(&text).unwrap();
        let base = take(Some(&last));
        serde_json::to_vec(&base).unwrap();
        base
    });
    assert_eq!(later.snapshot.files, last.files);
    measure("fingerprint", || fingerprint(&work).unwrap());
    println!("{} files, tree {}", last.files.len(), last.tree());
}

/// Runs some work and prints its time, and the CPU time of this process.
fn measure<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let (cpu, started) = (cpu_ms(), Instant::now());
    let result = work();
    let wall = started.elapsed().as_secs_f64() * 1e3;
    println!("{name:<44} {wall:>9.0} {:>9.0}", cpu_ms() - cpu);
    result
}

fn cpu_ms() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let ms = |time: TimeVal| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    ms(usage.user_time()) + ms(usage.system_time())
}

/// Makes a repository of source files, and a clone of it.
fn make_clone(folder: &Path, work: &Path) {
    let origin = folder.join("origin");
    for number in 0..FOLDERS {
        let inner = origin.join(format!("part{}/module{number}", number % 30));
        fs::create_dir_all(&inner).unwrap();
        for file in 0..FILES_PER_FOLDER {
            let mut text = String::with_capacity(FILE_BYTES + 100);
            let mut line = number * FILES_PER_FOLDER + file;
            while text.len() < FILE_BYTES {
                line = line.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(&format!("fn item_{line:x}() -> u64 {{ {} }}\n", line >> 7));
            }
            fs::write(inner.join(format!("file{file}.rs")), text).unwrap();
        }
    }
    git(&origin, &["init", "-q"]);
    git(&origin, &["add", "."]);
    git(
        &origin,
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "-m",
            "all",
        ],
    );
    git(folder, &["clone", "-q", "origin", &work.to_string_lossy()]);
}

fn git(folder: &Path, args: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "core.compression=0", "-c", "gc.auto=0"])
        .args(args)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success(), "{args:?}");
}
