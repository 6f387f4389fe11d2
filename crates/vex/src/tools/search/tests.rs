use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use serde_json::json;

use crate::tools::testing::Bench;

/// A workspace like that of a project: sources, and many irrelevant files.
fn project() -> Bench {
    let bench = Bench::new();
    bench.put(
        "src/main.rs",
        "fn main() {\n    // Needle here\n    needle(1);\n}\n",
    );
    bench.put("src/deep/lib.py", "def needle():\n    pass\n\n\n\nneedle()\n");
    bench.put("README.md", "No such word.\nA needle in a haystack.\n");
    bench.put(".gitignore", "/out/\n*.log\n");
    bench.put("out/made.rs", "needle\n");
    bench.put("run.log", "needle\n");
    bench.put(".hidden/x.rs", "needle\n");
    bench.put(".git/objects/x.rs", "needle\n");
    bench.put("sub/.git/x.rs", "needle\n");
    bench.put("target/x.rs", "needle\n");
    bench.put(
        "target/CACHEDIR.TAG",
        "Signature: 8a477f597d28d172789f06886806bc55\n",
    );
    bench.put("image.bin", b"needle\n\0\x01\x02");
    symlink("/etc", bench.path("etc")).unwrap();
    symlink("src/main.rs", bench.path("link.rs")).unwrap();
    nix::unistd::mkfifo(&bench.path("pipe.rs"), Mode::S_IRWXU).unwrap();
    bench
}

#[test]
fn search_skips_git_and_ignored_files() {
    let bench = project();
    let output = [
        bench.ok("search_files", json!({"pattern": "needle"})),
        bench.ok("search_files", json!({"pattern": "Needle"})),
        bench.ok(
            "search_files",
            json!({"pattern": "needle(1)", "literal": true, "context": 1}),
        ),
        bench.ok("search_files", json!({"pattern": r"^def \w+", "glob": "*.py"})),
        bench.ok(
            "search_files",
            json!({"pattern": "needle", "glob": "src/**", "files_only": true}),
        ),
        bench.ok(
            "search_files",
            json!({"pattern": "needle", "path": "src/main.rs"}),
        ),
        bench.ok(
            "search_files",
            json!({"pattern": "needle", "path": "src/deep", "context": 1}),
        ),
        bench.ok("search_files", json!({"pattern": "absent"})),
        bench.ok(
            "search_files",
            json!({"pattern": "needle", "all": true, "files_only": true}),
        ),
        bench.fails("search_files", json!({"pattern": "needle("})),
        bench.fails("search_files", json!({"pattern": "needle", "path": "no/such"})),
    ];
    insta::assert_snapshot!(output.join("--\n"));
    for path in ["..", "/etc", "etc"] {
        assert!(
            bench
                .call("search_files", json!({"pattern": "root", "path": path}))
                .denied,
            "{path}"
        );
        assert!(
            bench
                .call("glob_files", json!({"pattern": "*", "path": path}))
                .denied,
            "{path}"
        );
    }
}

#[test]
fn glob_lists_the_files_that_a_search_walks() {
    let bench = project();
    let output = [
        bench.ok("glob_files", json!({"pattern": "*.rs"})),
        bench.ok("glob_files", json!({"pattern": "src/**/*.py"})),
        bench.ok("glob_files", json!({"pattern": "deep/*", "path": "src"})),
        bench.ok("glob_files", json!({"pattern": "./src/"})),
        bench.ok("glob_files", json!({"pattern": "*.{rs,log}", "all": true})),
        bench.ok("glob_files", json!({"pattern": "*.c"})),
        bench.fails("glob_files", json!({"pattern": "a[b"})),
    ];
    insta::assert_snapshot!(output.join("--\n"));
}

#[test]
fn search_results_are_bounded_and_counted() {
    let bench = Bench::new();
    for i in 0..300 {
        bench.put(&format!("d/{i:03}.txt"), "needle\n".repeat(100));
    }
    bench.put(
        "long.txt",
        format!("{}needle{}\n", "x".repeat(5000), "y".repeat(5000)),
    );
    let output = bench.ok("search_files", json!({"pattern": "needle"}));
    assert!(output.len() < 24 * 1024, "{}", output.len());
    assert!(
        output.ends_with(
            "[at least 10000 lines in 100 files; not all are shown: narrow it with path, glob or pattern]\n"
        ),
        "{}",
        &output[output.len() - 200..]
    );
    let output = bench.ok("search_files", json!({"pattern": "needle", "glob": "long.txt"}));
    assert!(
        output.len() < 400 && output.contains("…x") && output.contains("needley"),
        "{output}"
    );
    let output = bench.ok("glob_files", json!({"pattern": "*.txt"}));
    assert!(
        output.ends_with("[200 of 301 files; narrow the pattern]\n"),
        "{output}"
    );
    bench.interrupt.set();
    assert!(
        bench
            .fails("search_files", json!({"pattern": "needle"}))
            .contains("interrupted")
    );
}

#[test]
fn other_encodings_and_endless_lines_do_no_harm() {
    let bench = Bench::new();
    let utf16: Vec<u8> = "\u{feff}ein needle\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    bench.put("utf16.txt", utf16);
    bench.put("latin.txt", b"caf\xe9 needle\n");
    bench.put("endless.txt", "x".repeat(9 << 20));
    let output = bench.ok("search_files", json!({"pattern": "needle|x"}));
    insta::assert_snapshot!(output);
}

#[test]
fn several_paths_in_one_argument_are_explained() {
    let bench = Bench::new();
    bench.put("a.py", "x\n");
    bench.put("b.py", "x\n");
    let output = |path: &str| bench.fails("search_files", json!({"pattern": "x", "path": path}));
    assert_eq!(
        output("a.py b.py"),
        "a.py b.py is not there: give one path, or leave it out to search everywhere"
    );
    assert_eq!(output("a.py c.py"), "a.py c.py is not there");
}
