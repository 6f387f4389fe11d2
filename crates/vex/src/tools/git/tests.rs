use std::process::Command;

use serde_json::json;

use crate::tools::testing::Bench;

fn sh(bench: &Bench, script: &str) {
    let done = Command::new("sh")
        .arg("-ec")
        .arg(script)
        .current_dir(bench.dir.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
        .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn repository() -> Bench {
    let bench = Bench::new();
    sh(
        &bench,
        "git init -qb main; git config user.name Name; git config user.email mail@example.com; \
         printf 'one\\ntwo\\n' >a.txt; mkdir d; echo b >'d/b c.txt'; git add .; git commit -qm first",
    );
    bench
}

#[test]
fn git_tools_summarise_the_repository() {
    let bench = repository();
    assert_eq!(bench.ok("git_status", json!({})), "on main\n[nothing changed]\n");
    bench.put("a.txt", "one\nTWO\n");
    bench.put("ä new.txt", "n\n");
    sh(&bench, "git mv 'd/b c.txt' moved.txt");
    let shown = [
        bench.ok("git_status", json!({})),
        bench.ok("git_diff", json!({})),
        bench.ok("git_diff", json!({"staged": true})),
        bench.ok("git_diff", json!({"ref": "HEAD", "path": "a.txt"})),
        bench.ok("git_diff", json!({"paths": ["d"]})),
        bench.ok("git_log", json!({})),
        bench.ok("git_log", json!({"path": "d/b c.txt", "limit": 1})),
        bench.ok("git_show", json!({"paths": ["a.txt"]})),
        bench.ok("git_show", json!({"ref": "HEAD:a.txt"})),
        bench.fails("git_show", json!({"ref": "nope"})),
    ]
    .map(|text| {
        let (mut text, ids) = (text, bench.ok("git_log", json!({})));
        let id = ids.split(' ').next().unwrap_or_default().to_owned();
        while let Some(at) = text.find(&id) {
            let end = text[at..]
                .find(|c: char| !c.is_ascii_hexdigit())
                .map_or(text.len(), |end| at + end);
            text.replace_range(at..end, "ID");
        }
        text
    });
    insta::assert_snapshot!(shown.join("--\n"));
}

#[test]
fn git_show_never_writes_a_file() {
    let bench = repository();
    let target = bench.path("out.txt");
    for given in [
        format!("--output={}", target.display()),
        "-O/etc/passwd".to_owned(),
        " --output=x".to_owned(),
        "HEAD\n--output=x".to_owned(),
    ] {
        for tool in ["git_show", "git_diff", "git_log"] {
            let shown = bench.fails(tool, json!({"ref": given}));
            assert!(shown.contains("is no revision"), "{tool} {given:?}: {shown}");
        }
    }
    // Among paths an option is only a name.
    bench.ok("git_show", json!({"paths": ["--output=out.txt"]}));
    bench.ok("git_diff", json!({"paths": ["--output=out.txt"]}));
    assert!(!target.exists() && !bench.path("x").exists());
    for path in ["../x", "/etc/passwd"] {
        for tool in ["git_show", "git_diff", "git_log"] {
            assert!(bench.call(tool, json!({"paths": [path]})).denied, "{tool} {path}");
        }
    }
}

#[test]
fn git_runs_nothing_that_the_repository_configures() {
    let bench = repository();
    let proof = bench.path("ran");
    let touch = format!("touch '{}'", proof.display());
    bench.put(".gitattributes", "*.txt diff=evil filter=evil\n");
    for (name, value) in [
        ("core.fsmonitor", touch.clone()),
        ("core.pager", touch.clone()),
        ("core.editor", touch.clone()),
        ("diff.external", touch.clone()),
        ("diff.evil.textconv", touch.clone()),
        ("diff.evil.command", touch.clone()),
        ("filter.evil.clean", format!("{touch}; cat")),
        ("filter.evil.process", touch.clone()),
        ("filter.evil.required", "true".to_owned()),
        ("gpg.program", touch.clone()),
        ("commit.gpgSign", "true".to_owned()),
    ] {
        sh(&bench, &format!("git config {name} \"{value}\""));
    }
    sh(
        &bench,
        &format!(
            "for hook in pre-commit commit-msg post-commit prepare-commit-msg post-index-change fsmonitor-watchman; do \
             printf '#!/bin/sh\\n{}\\n' >.git/hooks/$hook; chmod +x .git/hooks/$hook; done",
            touch.replace('\'', "")
        ),
    );
    let _ = std::fs::remove_file(&proof);
    bench.put("a.txt", "changed\n");
    bench.put("code.rs", "code\n");
    bench.ok("git_status", json!({}));
    let diff = bench.ok("git_diff", json!({}));
    assert!(diff.contains("+changed"), "{diff}");
    bench.ok("git_show", json!({}));
    bench.ok("git_log", json!({}));
    let shown = bench.fails("git_commit", json!({"message": "m", "paths": ["a.txt"]}));
    assert!(
        shown.contains("a.txt passes through the filter \"evil\""),
        "{shown}"
    );
    bench.ok("git_commit", json!({"message": "m", "paths": ["code.rs"]}));
    assert!(!proof.exists());
}

#[test]
fn git_commit_takes_only_the_named_paths() {
    let bench = repository();
    let shown = bench.fails("git_commit", json!({"message": "m"}));
    assert!(
        shown.contains("nothing is staged; give paths, or set all"),
        "{shown}"
    );
    bench.fails("git_commit", json!({"message": " ", "all": true}));
    bench.fails("git_commit", json!({"message": "m", "all": true}));
    bench.put("a.txt", "changed\n");
    bench.put("new/n.txt", "n\n");
    bench.put("other.txt", "o\n");
    std::fs::remove_file(bench.path("d/b c.txt")).unwrap();
    let shown = bench.ok(
        "git_commit",
        json!({"message": "Change it\n\nWhy: -- because", "paths": ["a.txt", "new", "d/b c.txt"]}),
    );
    assert!(
        shown.contains("Change it") && shown.contains("3 files changed"),
        "{shown}"
    );
    let status = bench.ok("git_status", json!({}));
    assert_eq!(status, "on main\n?? other.txt\n");
    bench.ok("git_commit", json!({"message": "All", "all": true}));
    let log = bench.ok("git_log", json!({}));
    assert_eq!(log.lines().count(), 3, "{log}");
    sh(&bench, "echo s >staged; git add staged; echo u >unstaged");
    bench.ok("git_commit", json!({"message": "Staged"}));
    assert_eq!(bench.ok("git_status", json!({})), "on main\n?? unstaged\n");
    assert!(
        bench
            .call("git_commit", json!({"message": "m", "paths": ["../x"]}))
            .denied
    );
}

#[test]
fn git_commit_refuses_a_merge_conflict() {
    let bench = repository();
    sh(
        &bench,
        "git checkout -qb side; echo side >a.txt; git commit -qam side; git checkout -q main; echo main >a.txt; \
         git commit -qam main; ! git merge -q side",
    );
    let status = bench.ok("git_status", json!({}));
    assert!(
        status.contains("UU a.txt\n[conflicts in a.txt: take out the markers"),
        "{status}"
    );
    for input in [
        json!({"message": "m", "all": true}),
        json!({"message": "m", "paths": ["a.txt"]}),
    ] {
        let shown = bench.fails("git_commit", input);
        assert_eq!(
            shown,
            "nothing was committed: conflict markers still stand in a.txt"
        );
    }
    bench.put("a.txt", "both\n");
    bench.ok("git_commit", json!({"message": "Merge side", "paths": ["a.txt"]}));
    let log = bench.ok("git_log", json!({"ref": "HEAD^2"}));
    assert!(log.contains("side"), "{log}");
}

#[test]
fn git_commit_reports_a_missing_author_or_repository() {
    let bench = Bench::new();
    for tool in ["git_status", "git_diff", "git_log", "git_show"] {
        let shown = bench.fails(tool, json!({}));
        assert!(shown.contains("not a git repository"), "{tool}: {shown}");
    }
    sh(
        &bench,
        "git init -qb main; git config user.name ''; git config user.email ''",
    );
    bench.put("a", "a\n");
    let shown = bench.fails("git_commit", json!({"message": "m", "all": true}));
    assert!(shown.contains("git knows no author"), "{shown}");
    assert!(
        bench
            .ok("git_status", json!({}))
            .contains("No commits yet on main")
    );
}

#[test]
fn long_patch_starts_with_its_summary() {
    let bench = repository();
    bench.put("a.txt", "line of text\n".repeat(5000));
    let shown = bench.ok("git_diff", json!({}));
    assert!(shown.starts_with(" a.txt | 50"), "{}", &shown[..80]);
    assert!(
        shown.len() < 12 * 1024 && shown.contains("bytes more; give paths"),
        "{}",
        shown.len()
    );
}
