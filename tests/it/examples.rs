//! The reference workflow as a new user runs it: offline, without an account, a key or settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::*;

const ISSUES: [&str; 3] = ["1", "2", "3"];

/// A copy of the example in its own test environment.
struct Example {
    env: TestEnv,
}

impl Example {
    fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy(&root.join("examples"), &env.work().join("examples"));
        std::fs::copy(
            root.join("workflow.example.yml"),
            env.work().join("workflow.example.yml"),
        )
        .unwrap();
        // A fresh machine has neither a name and a mail address in its git settings, nor any agent
        // CLIs.
        std::fs::remove_file(env.home().join(".gitconfig")).unwrap();
        env.unlink("codex");
        env.unlink("claude");
        Self { env }
    }

    #[track_caller]
    fn vik(&self, args: &[&str]) -> Done {
        let output = self.env.vik(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    fn issues_dir(&self) -> String {
        self.env.work().join(".vik/example/issues").display().to_string()
    }

    fn states(&self) -> Vec<Value> {
        let listed = self
            .vik(&["issue", "--dir", &self.issues_dir(), "list", "--json"])
            .expect(0)
            .json();
        let issues = listed.as_array().unwrap();
        issues.iter().map(|issue| issue["state"].clone()).collect()
    }

    /// Returns the workspace of an issue.
    fn workspace(&self, issue: &str) -> PathBuf {
        let mut homes = list(&self.env.work().join(".vik/workflows"));
        assert_eq!(homes.len(), 1, "{homes:?}");
        homes.remove(0).join("issues").join(issue)
    }

    fn git(&self, folder: &Path, args: &[&str]) -> String {
        let output = self
            .env
            .command("git")
            .arg("-C")
            .arg(folder)
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-R").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn example_finishes_its_work_and_then_has_nothing_to_do() {
    let example = Example::new();
    let first = example.vik(&["run", "--once", "workflow.example.yml"]).expect(0);
    example.env.assert_nothing_left();
    assert_contains(&first.out, "6 attempts: 6 succeeded, 0 failed; ");
    for issue in ISSUES {
        for stage in ["implement", "review"] {
            let row = first
                .out
                .lines()
                .find(|row| row.split_whitespace().take(2).eq([issue, stage]));
            let row = row.unwrap_or_else(|| panic!("no row of {issue} {stage}: {}", first.out));
            assert_contains(row, " succeeded ");
            assert_contains(row, " $0.00 ");
            let session = row.split_whitespace().last().unwrap();
            let log = example.vik(&["logs", "-w", "workflow.example.yml", "--session", session]);
            assert!(log.expect(0).out.contains(stage), "{row}");
        }
        let workspace = example.workspace(issue);
        let ahead = example.git(&workspace, &["rev-list", "--count", "origin/main..HEAD"]);
        assert_ne!(ahead.trim(), "0", "issue {issue} has a commit");
        assert_eq!(example.git(&workspace, &["status", "--short"]), "");
        // The tests of the sample pass on the result, and the review moved the issue.
        let tests = example
            .env
            .command("sh")
            .arg("tests/run.sh")
            .current_dir(&workspace)
            .output()
            .unwrap();
        assert!(
            tests.status.success(),
            "{}",
            String::from_utf8_lossy(&tests.stdout)
        );
        let head = example.git(&workspace, &["rev-parse", "HEAD"]);
        let sample = example.env.work().join(".vik/example/sample.git");
        assert_eq!(
            example.git(&sample, &["rev-parse", &format!("issue-{issue}")]),
            head
        );
    }
    assert_eq!(example.states(), ["done", "done", "done"]);
    assert_contains(&first.err, "▶ 1 implement (coder)");

    let second = example.vik(&["run", "--once", "workflow.example.yml"]).expect(0);
    assert!(second.out.starts_with("nothing to do"), "{}", second.out);
    let runs = example
        .vik(&["runs", "--json", "-w", "workflow.example.yml"])
        .expect(0)
        .json();
    assert_eq!(runs.as_array().unwrap().len(), 6, "nothing was run again");
    example.env.assert_nothing_left();
}

#[test]
fn example_runs_from_another_folder() {
    let example = Example::new();
    let path = example.env.work().join("workflow.example.yml");
    let mut vik = example.env.vik(["run", "--once", "--issue", "2"]);
    let output = vik.arg(&path).current_dir(example.env.home()).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(example.states(), ["todo", "done", "todo"]);
    example.env.assert_nothing_left();
}

#[test]
fn doctor_passes_the_example() {
    let example = Example::new();
    let done = example.vik(&["doctor", "workflow.example.yml"]);
    assert_eq!(done.code, 0, "{}\n{}", done.out, done.err);
    example.env.assert_nothing_left();
}

/// Changes the two lines that the README names.
#[test]
fn example_switches_agents_by_two_lines() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("workflow.example.yml")).unwrap();
    for (name, runtime) in [("codex", "codex"), ("claude", "claude_code"), ("api", "vex")] {
        let lines = ["coder", "reviewer"].map(|agent| format!("  {agent}: *recorded\n"));
        assert!(
            lines.iter().all(|line| text.contains(line)),
            "the lines are there"
        );
        let changed = lines.iter().fold(text.clone(), |text, line| {
            text.replace(line, &line.replace("*recorded", &format!("*{name}")))
        });
        let loaded = vik_workflow_reader::load(&changed);
        assert_eq!(loaded.diagnostics, [], "{name}");
        let flow = loaded.workflow.unwrap();
        assert!(
            flow.agents
                .values()
                .all(|agent| agent.runtime.as_str() == runtime),
            "{name}"
        );
    }
}
