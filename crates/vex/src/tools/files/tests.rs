use std::os::unix::fs::{PermissionsExt, symlink};

use nix::sys::stat::Mode;
use serde_json::json;

use crate::tools::testing::Bench;
use crate::tools::{Permission, Policy, WriteLimits};

fn mode(bench: &Bench, path: &str) -> u32 {
    bench.path(path).metadata().unwrap().permissions().mode() & 0o7777
}

fn set_mode(bench: &Bench, path: &str, mode: u32) {
    std::fs::set_permissions(bench.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn write_that_reports_success_has_written() {
    let bench = Bench::new();
    let shown = bench.ok("write_file", json!({"path": "a/b.sh", "content": "one\ntwo\n"}));
    assert_eq!(shown, "created a/b.sh (2 lines)");
    assert_eq!(bench.get("a/b.sh"), "one\ntwo\n");
    set_mode(&bench, "a/b.sh", 0o755);
    let shown = bench.ok(
        "edit_file",
        json!({"path": "a/b.sh", "old": "two", "new": "three"}),
    );
    assert_eq!(
        shown,
        "edited a/b.sh: replaced once\n@@ line 2 @@\n-two\n+three\n"
    );
    assert_eq!(bench.get("a/b.sh"), "one\nthree\n");
    assert_eq!(mode(&bench, "a/b.sh"), 0o755, "the mode is kept");
    let left = std::fs::read_dir(bench.path("a")).unwrap().count();
    assert_eq!(left, 1, "no temporary file is left");
    assert_eq!(bench.changed(), ["a/b.sh"]);
}

#[test]
fn write_without_a_change_reports_no_success() {
    let bench = Bench::new();
    bench.ok("write_file", json!({"path": "f", "content": "x\nx\n"}));
    let shown = [
        bench.fails("write_file", json!({"path": "f", "content": "x\nx\n"})),
        bench.fails("edit_file", json!({"path": "f", "old": "y", "new": "z"})),
        bench.fails("edit_file", json!({"path": "f", "old": "x", "new": "z"})),
        bench.fails("edit_file", json!({"path": "f", "old": "", "new": "z"})),
        bench.fails("edit_file", json!({"path": "f", "old": "x", "new": "x"})),
        bench.fails("edit_file", json!({"path": "g", "old": "x", "new": "y"})),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!(bench.get("f"), "x\nx\n");
    assert!(!bench.path("g").exists());
    let shown = bench.ok(
        "edit_file",
        json!({"path": "f", "old": "x", "new": "y", "replace_all": true}),
    );
    assert!(shown.starts_with("edited f: replaced 2 times\n"), "{shown}");
}

#[test]
fn edit_of_nothing_only_creates_a_file() {
    let bench = Bench::new();
    bench.put("f", "one\n");
    let edit = |path: &str| json!({"path": path, "old": "", "new": "two\n"});
    bench.fails("edit_file", edit("f"));
    bench.ok("read_file", json!({"path": "f"}));
    bench.fails("edit_file", edit("f"));
    assert_eq!(bench.get("f"), "one\n");
    let shown = bench.ok("edit_file", edit("new/g"));
    assert!(shown.starts_with("created new/g"), "{shown}");
    assert_eq!(bench.get("new/g"), "two\n");
    bench.put("empty", "");
    bench.ok("edit_file", edit("empty"));
}

#[test]
fn file_changed_since_its_read_is_not_written() {
    let bench = Bench::new();
    bench.put("f", "one\n");
    bench.ok("read_file", json!({"path": "f"}));
    bench.put("f", "two\n");
    for (tool, input) in [
        ("write_file", json!({"path": "f", "content": "new\n"})),
        ("edit_file", json!({"path": "f", "old": "two", "new": "new"})),
    ] {
        let shown = bench.fails(tool, input);
        assert!(
            shown.contains("changed by something else since you last saw it"),
            "{shown}"
        );
    }
    assert_eq!(bench.get("f"), "two\n");
    bench.ok("read_file", json!({"path": "f"}));
    bench.ok("write_file", json!({"path": "f", "content": "new\n"}));
    bench.ok("edit_file", json!({"path": "f", "old": "new", "new": "newer"}));
    assert_eq!(bench.get("f"), "newer\n");
}

#[test]
fn unread_file_is_not_overwritten_unless_empty() {
    let bench = Bench::new();
    bench.put("f", "precious\n");
    let shown = bench.fails("write_file", json!({"path": "f", "content": "new\n"}));
    assert!(shown.contains("you have not read it"), "{shown}");
    assert_eq!(bench.get("f"), "precious\n");
    bench.put("empty", "");
    bench.ok("write_file", json!({"path": "empty", "content": "new\n"}));
    // The exact text is proof enough for an edit.
    bench.ok("edit_file", json!({"path": "f", "old": "precious", "new": "new"}));
}

#[test]
fn long_files_are_steered_to_edits() {
    let bench = Bench::new();
    let lines = |n: usize| "line\n".repeat(n);
    for n in [300, 3000] {
        bench.put(&n.to_string(), lines(n));
        bench.ok("read_file", json!({"path": n.to_string()}));
    }
    let shown = bench.ok("write_file", json!({"path": "300", "content": lines(301)}));
    assert!(shown.contains("is better for a file of this length"), "{shown}");
    let shown = bench.fails("write_file", json!({"path": "3000", "content": "short\n"}));
    assert!(
        shown.contains("too long to be written anew (3000 lines, at most 2000)"),
        "{shown}"
    );
    assert_eq!(bench.get("3000"), lines(3000));
    bench.ok("write_file", json!({"path": "new", "content": lines(3000)}));
}

#[test]
fn write_limits_are_settings() {
    let bench = Bench::with(Policy {
        permission: Permission::WorkspaceWrite,
        write: WriteLimits {
            prefer_edit_lines: 1,
            max_lines: 3,
        },
        ..Policy::default()
    });
    let write = |content: &str| bench.call("write_file", json!({"path": "a", "content": content}));
    write("1\n");
    assert!(
        write("1\n2\n")
            .output
            .contains("edit_file or apply_patch is better")
    );
    assert!(write("1\n2\n3\n4\n").output.contains("4 lines, at most 3"));
}

#[test]
fn failed_edit_of_a_short_file_shows_its_content() {
    let bench = Bench::new();
    bench.put("a.txt", "one\ntwo\n");
    let guess = json!({"path": "a.txt", "old": "eleven", "new": "twelve"});
    let shown = bench.fails("edit_file", guess.clone());
    assert!(
        shown.ends_with("You had not read it; it is:\none\ntwo\n"),
        "{shown}"
    );
    assert!(!bench.fails("edit_file", guess).contains("You had not read it"));
    bench.ok("write_file", json!({"path": "a.txt", "content": "three\n"}));
    bench.put("long.txt", "line\n".repeat(1000));
    let shown = bench.fails(
        "edit_file",
        json!({"path": "long.txt", "old": "eleven", "new": "x"}),
    );
    assert!(shown.len() < 1000, "{shown}");
}

#[test]
fn line_ends_and_marks_are_kept() {
    let bench = Bench::new();
    bench.put("f", "\u{feff}a\r\nb\r\nc\r\n");
    let shown = bench.ok("read_file", json!({"path": "f"}));
    assert_eq!(shown, "a\nb\nc\n[lines end with CR LF]\n");
    bench.ok("edit_file", json!({"path": "f", "old": "a\nb", "new": "a\nx\nb"}));
    assert_eq!(bench.get("f"), "\u{feff}a\r\nx\r\nb\r\nc\r\n");
    let shown = bench.ok("write_file", json!({"path": "f", "content": "one\ntwo\n"}));
    assert!(
        shown.contains("its line ends and byte order mark were kept"),
        "{shown}"
    );
    assert_eq!(bench.get("f"), "\u{feff}one\r\ntwo\r\n");

    let write = |before: &str, content: &str| {
        bench.put("g", before);
        bench.ok("read_file", json!({"path": "g"}));
        bench.ok("write_file", json!({"path": "g", "content": content}));
        bench.get("g")
    };
    assert_eq!(write("a\nb\n", "one\r\ntwo\r\n"), "one\ntwo\n");
    assert_eq!(write("a\nb\n", "one\r\ntwo"), "one\ntwo");
    assert_eq!(write("a\r\nb\r\n", "one\ntwo\n"), "one\r\ntwo\r\n");
    // Mixed line ends are meant.
    assert_eq!(write("a\nb\n", "one\r\ntwo\n"), "one\r\ntwo\n");
    assert_eq!(write("a\nb\nc\r\n", "one\r\ntwo\r\n"), "one\r\ntwo\r\n");
}

#[test]
fn read_file_pages_name_the_next_call() {
    let bench = Bench::new();
    bench.put("f", "1\n2\n3\n4");
    let page = |offset: usize| bench.ok("read_file", json!({"path": "f", "offset": offset, "limit": 2}));
    assert_eq!(
        page(1),
        "1\n2\n[lines 1 to 2 of 4; next: read_file with offset 3]\n"
    );
    assert_eq!(page(3), "3\n4\n[no newline at the end]\n");
    assert_eq!(
        bench.fails("read_file", json!({"path": "f", "offset": 5})),
        "f has only 4 lines"
    );
    let again = page(1);
    assert!(
        again.starts_with("1\n2\n"),
        "the content comes again, whatever was read before: {again}"
    );
    bench.ok("edit_file", json!({"path": "f", "old": "4", "new": "5"}));
    assert_eq!(bench.get("f"), "1\n2\n3\n5");
}

#[test]
fn huge_files_come_in_pages_and_long_lines_cut() {
    let bench = Bench::new();
    bench.put("many", "0123456789\n".repeat(200_000));
    let first = bench.ok("read_file", json!({"path": "many"}));
    assert!(first.ends_with("[lines 1 to 1000 of 200000; next: read_file with offset 1001]\n"));
    let wide = format!("{}\n", "ä".repeat(1500)).repeat(100);
    bench.put("wide", &wide);
    let first = bench.ok("read_file", json!({"path": "wide"}));
    assert!(first.len() <= crate::tools::MAX_OUTPUT_BYTES, "{}", first.len());
    assert!(
        first.ends_with("[lines 1 to 10 of 100; next: read_file with offset 11]\n"),
        "{}",
        &first[first.len() - 100..]
    );
    bench.put("long", format!("{}\nend\n", "x".repeat(1_000_000)));
    let shown = bench.ok("read_file", json!({"path": "long"}));
    assert!(shown.len() < 4100, "{}", shown.len());
    assert!(
        shown.ends_with("[… 996000 bytes more]\nend\n"),
        "{}",
        &shown[3990..]
    );
    bench.put("huge", "x".repeat(17 << 20));
    let shown = bench.fails("edit_file", json!({"path": "huge", "old": "y", "new": "z"}));
    assert!(shown.contains("too large to be edited"), "{shown}");
}

#[test]
fn binary_file_is_reported_and_not_edited() {
    let bench = Bench::new();
    bench.put("b.png", b"\x89PNG\r\n\x1a\n\0\0\0");
    bench.put("latin", b"caf\xe9\n");
    bench.put("empty", "");
    nix::unistd::mkfifo(&bench.path("pipe"), Mode::S_IRWXU).unwrap();
    std::fs::create_dir(bench.path("dir")).unwrap();
    symlink("/etc/passwd", bench.path("out")).unwrap();
    let shown = [
        bench.ok("read_file", json!({"path": "b.png"})),
        bench.ok("read_file", json!({"path": "latin"})),
        bench.fails("edit_file", json!({"path": "latin", "old": "caf", "new": "tea"})),
        bench.ok("read_file", json!({"path": "empty"})),
        bench.fails("read_file", json!({"path": "pipe"})),
        bench.fails("write_file", json!({"path": "pipe", "content": "x"})),
        bench.fails("read_file", json!({"path": "dir"})),
        bench.fails("write_file", json!({"path": "dir", "content": "x"})),
        bench.fails("read_file", json!({"path": "latim"})),
        bench.fails("read_file", json!({"path": "no/such"})),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    for tool in ["read_file", "list_dir"] {
        assert!(bench.call(tool, json!({"path": "out"})).denied, "{tool}");
    }
    assert!(
        bench
            .call("write_file", json!({"path": "out", "content": "x"}))
            .denied
    );
}

#[test]
fn read_only_file_is_refused_and_unusual_name_is_not() {
    let bench = Bench::new();
    bench.put("f", "one\n");
    set_mode(&bench, "f", 0o444);
    let shown = bench.fails("edit_file", json!({"path": "f", "old": "one", "new": "two"}));
    assert_eq!(shown, "f is read-only (mode 444); nothing was written");
    assert_eq!(bench.get("f"), "one\n");
    for name in ["ä ö/日本 .txt", "two words", "-rf", "a\nb", "$HOME"] {
        bench.ok("write_file", json!({"path": name, "content": "x\n"}));
        assert_eq!(bench.get(name), "x\n", "{name:?}");
        bench.ok("edit_file", json!({"path": name, "old": "x", "new": "y"}));
        assert_eq!(bench.ok("read_file", json!({"path": name})), "y\n");
    }
    let found = bench.ok("glob_files", json!({"pattern": "**/*.txt"}));
    assert_eq!(found, "ä ö/日本 .txt\n");
    bench.fails("read_file", json!({"path": "no\0thing"}));
}

#[test]
fn link_inside_the_workspace_is_followed_and_stays_a_link() {
    let bench = Bench::new();
    bench.put("real", "one\n");
    symlink("real", bench.path("link")).unwrap();
    bench.ok("edit_file", json!({"path": "link", "old": "one", "new": "two"}));
    assert_eq!(bench.get("real"), "two\n");
    assert!(bench.path("link").symlink_metadata().unwrap().is_symlink());
    // A file read by one name is known by the other.
    bench.ok("write_file", json!({"path": "link", "content": "three\n"}));
    assert_eq!(bench.get("real"), "three\n");
}

#[test]
fn listing_is_sorted_and_marked() {
    let bench = Bench::new();
    bench.put("d/x", "");
    bench.put("a", "");
    symlink("a", bench.path("l")).unwrap();
    std::fs::create_dir(bench.path("e")).unwrap();
    assert_eq!(bench.ok("list_dir", json!({})), "a\nd/\ne/\nl@\n");
    assert_eq!(bench.ok("list_dir", json!({"path": "e"})), "[empty]\n");
    for i in 0..600 {
        bench.put(&format!("e/{i:03}"), "");
    }
    let listing = bench.ok("list_dir", json!({"path": "e"}));
    assert!(
        listing.starts_with("000\n") && listing.contains("[500 of 600 entries;"),
        "{listing}"
    );
}
