//! "Five minutes on your own project" of the README, word for word, in an empty home.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::*;

/// A stand-in for Claude Code, which commits a file once.
const CLAUDE: &str = r#"#!/bin/sh
case "$1" in --version) echo "2.0.0 (Claude Code)"; exit 0;; esac
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","model":"m","tools":[]}'
test -e TESTS.md || { echo "Run the tests." > TESTS.md; git add TESTS.md; git commit --quiet -m "Describe the tests"; }
echo '{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"num_turns":1,"result":"done","session_id":"11111111-1111-4111-8111-111111111111","total_cost_usd":0.01,"usage":{"input_tokens":1,"output_tokens":1}}'
"#;

/// Returns the commands of a section of the README.
fn commands(heading: &str) -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, section) = readme.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

#[test]
fn first_steps_end_with_a_merged_change() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
    let claude = env.write("stand-ins/claude", CLAUDE);
    std::fs::set_permissions(&claude, std::fs::Permissions::from_mode(0o755)).unwrap();
    env.link("claude", &claude);
    let setup = "set -eu\ngit init --quiet my-project\n\
                 git -C my-project commit --quiet --allow-empty -m Begin\n";
    let script = format!("{setup}{}", commands("Five minutes on your own project"));
    let output = env
        .command("sh")
        .args(["-c", &script])
        .env("ANTHROPIC_API_KEY", "none")
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}");
    let project = env.work().join("my-project");
    assert_eq!(
        std::fs::read_to_string(project.join("TESTS.md")).unwrap(),
        "Run the tests.\n"
    );
    let again = env
        .command("vik")
        .args(["run", "--once", "--workflow", "my-project/workflow.yml"])
        .output()
        .unwrap();
    assert!(again.status.success(), "{again:?}");
    let workspaces = project.join(".vik/workflows");
    let home = std::fs::read_dir(workspaces)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert!(
        !home.join("issues/1").exists(),
        "the workspace of a finished issue is removed"
    );
    env.assert_nothing_left();
}
