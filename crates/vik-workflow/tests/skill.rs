//! The skill that Vik ships contains an example of a workflow.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]

use std::path::Path;

use vik_workflow::WorkflowFile;

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
