//! Skills of workflows, and the skill that Vik ships, which contains an example of a workflow.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]

use std::path::Path;

use vik_workflow::WorkflowFile;

/// Returns the findings in a workflow whose agent has the skill folders `a` and `b`, each with such a
/// SKILL.md.
fn findings(a: &str, b: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a", a), ("b", b)] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("SKILL.md"), text).unwrap();
    }
    let path = folder.path().join("workflow.yml");
    let text = "issues: { pull: { command: ./list-issues } }\n\
                agents:\n  coder:\n    runtime: vex\n    model: m\n    skills:\n      - a\n      - b\n\
                issue: { stages: { plan: { when: { state: todo }, agent: coder, prompt: Do it. } } }\n";
    std::fs::write(&path, text).unwrap();
    let mut file = WorkflowFile::read(&path).unwrap();
    let draft = file.loaded.draft().unwrap().clone();
    file.check_templates(&draft);
    file.diagnostics(false)
}

#[test]
fn skill_that_vex_cannot_use_is_an_error_with_its_position() {
    let good = "---\nname: a\ndescription: Does it.\n---\n";
    assert_eq!(findings(good, &good.replace("name: a", "name: b")), "");
    let large = good.replace("name: a", "name: b") + &"x".repeat(256 * 1024);
    for (second, reason) in [
        ("---\nname: b\ndescription: Does it.\n", "no front matter"),
        ("---\n- description: Does it.\n---\n", "cannot be read"),
        ("---\nname: b\n---\n", "no description"),
        (&large, "larger than 256 KiB"),
        (good, "have the same name"),
    ] {
        let found = findings(good, second);
        assert!(found.contains(reason), "{found}");
        assert!(
            found.contains("bad_skill") && found.contains("workflow.yml:8:9"),
            "{found}"
        );
    }
}

#[test]
fn example_of_the_skill_loads_without_a_warning() {
    let skill = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../skills/write-workflow/SKILL.md");
    let text = std::fs::read_to_string(skill).unwrap();
    assert!(text.lines().count() < 150, "skills are short");
    let (_, example) = text.split_once("```yaml\n").unwrap();
    let (example, after) = example.split_once("```\n").unwrap();
    assert!(!after.contains("```yaml"), "each example is tested");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workflow.yml");
    std::fs::write(&path, example).unwrap();
    let mut warnings = String::new();
    let loaded = WorkflowFile::valid(&path, |text| warnings.push_str(text));
    let loaded = loaded.unwrap_or_else(|failure| panic!("{}", failure.body().message));
    assert_eq!(warnings, "");
    assert_eq!(loaded.workflow.issue.stages[0].name.as_str(), "implement");
}
