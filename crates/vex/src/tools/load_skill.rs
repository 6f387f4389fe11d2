//! `load_skill`: the instructions of a skill, and where its other files are.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool::ReadOnly;
use super::{MAX_OUTPUT_BYTES, Subject, Tool, ToolContext, ToolError};
use crate::skills::text::one_line;
use crate::skills::{Body, Skill, Skills};

/// The maximum length of the list of files, in bytes.
const MAX_LISTING: usize = 3 * 1024;

/// The maximum length of the instructions, in bytes; the notes need the remaining space.
const MAX_BODY: usize = MAX_OUTPUT_BYTES - MAX_LISTING - 5 * 1024;

/// The maximum number of names in an error.
const MAX_NAMES: usize = 30;

#[derive(Debug, Deserialize)]
pub(crate) struct LoadSkill {
    name: String,
}

impl Tool for LoadSkill {
    const NAME: &'static str = "load_skill";
    const ALIASES: &'static [&'static str] = &["skill", "use_skill", "activate_skill"];
    const DESCRIPTION: &'static str = "Load the instructions of a skill.";
    type Kind = ReadOnly;
    const REQUIRED: &'static [&'static str] = &["name"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[("skill", "name"), ("skill_name", "name")];

    fn properties() -> Value {
        json!({"name": {"type": "string"}})
    }

    /// Removes spaces around the name, which rules then see like the tool.
    fn mend(arguments: &mut Map<String, Value>) {
        if let Some(Value::String(name)) = arguments.get_mut("name") {
            *name = name.trim().to_owned();
        }
    }

    fn subject(input: &Value) -> Subject {
        let name = input["name"].as_str();
        name.map_or(Subject::Unknown, |name| Subject::Name(name.to_owned()))
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let skill = context
            .skills
            .find(&self.name)
            .ok_or_else(|| ToolError::Failed(unknown(&self.name, context.skills)))?;
        let body = skill.body().map_err(ToolError::Failed)?;
        Ok(answer(skill, &body, &|path| context.root.shown(path)))
    }
}

fn unknown(name: &str, skills: &Skills) -> String {
    let mut names: Vec<&str> = skills
        .iter()
        .take(MAX_NAMES)
        .map(|skill| skill.name.as_str())
        .collect();
    if skills.iter().len() > MAX_NAMES {
        names.push("…");
    }
    format!(
        "there is no skill {}; there are {}",
        one_line(name, 100),
        names.join(", ")
    )
}

/// Returns the result for the model.
fn answer(skill: &Skill, body: &Body, shown: &dyn Fn(&std::path::Path) -> String) -> String {
    let mut text = format!("Skill {} ({})\n\n", skill.name, skill.origin.as_str());
    let kept = cut(&body.text);
    text.push_str(kept);
    text.push('\n');
    if kept.len() < body.text.len() {
        let line = body.first_line + kept.matches('\n').count() + 1;
        text += &format!(
            "\n[cut off here: read on with read_file {} from offset {line}]\n",
            shown(&skill.file())
        );
    }
    text += &format!(
        "\n[Paths in this skill are relative to {}. Other files there: {}]\n",
        shown(&skill.path),
        listing(skill)
    );
    if let Some(compatibility) = &skill.compatibility {
        text += &format!("[Requires: {compatibility}]\n");
    }
    if let Some(tools) = &skill.allowed_tools {
        text += &format!("[Its author expects these tools: {tools}. What you may do does not change.]\n");
    }
    text
}

/// Returns the instructions, cut after a whole line if they are too long.
fn cut(text: &str) -> &str {
    if text.len() <= MAX_BODY {
        return text;
    }
    let start = &text[..text.floor_char_boundary(MAX_BODY)];
    start.rfind('\n').map_or(start, |end| &start[..end])
}

fn listing(skill: &Skill) -> String {
    let (files, mut is_cut) = skill.files();
    let mut names = String::new();
    for file in &files {
        if names.len() + file.len() + 2 > MAX_LISTING {
            is_cut = true;
            break;
        }
        if !names.is_empty() {
            names.push_str(", ");
        }
        names.push_str(file);
    }
    match (names.is_empty(), is_cut) {
        (true, false) => "none".to_owned(),
        (_, true) => format!("{names} … and more; list_dir lists them"),
        (false, false) => names,
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::*;
    use crate::skills::SkillSources;
    use crate::tools::testing::Bench;
    use crate::tools::{Policy, Rule, Rules};

    /// Returns a workspace whose skills are outside of it.
    fn bench(text: &str, deny: &[&str]) -> (tempfile::TempDir, PathBuf, Bench) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap().join("release");
        std::fs::create_dir_all(folder.join("references")).unwrap();
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
        std::fs::write(folder.join("references/steps.md"), "one\ntwo\n").unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let skills = Skills::load(&SkillSources {
            folders: std::slice::from_ref(&folder),
            search: false,
            cwd: Path::new("/"),
            home: None,
            trusted: &[],
        });
        let bench = Bench::with(Policy {
            skills: skills.unwrap(),
            rules: Rules {
                allow: Vec::new(),
                deny: deny.iter().map(|rule| rule.parse::<Rule>().unwrap()).collect(),
            },
            ..Policy::default()
        });
        (dir, folder, bench)
    }

    const TEXT: &str = "---\nname: release\ndescription: How to release\nallowed-tools: Bash(rm *)\n---\n\n# Release\n\nRead references/steps.md.\n";

    #[test]
    fn skill_is_loaded_with_its_folder_and_files() {
        let (_dir, folder, bench) = bench(TEXT, &[]);
        let text = bench.ok("load_skill", json!({"name": "release"}));
        let expected = format!(
            "Skill release (workflow)\n\n# Release\n\nRead references/steps.md.\n\n\
             [Paths in this skill are relative to {}. Other files there: references/steps.md]\n\
             [Its author expects these tools: Bash(rm *). What you may do does not change.]\n",
            folder.display()
        );
        assert_eq!(text, expected);
        assert_eq!(bench.ok("skill", json!({"skill": " release\n"})), expected);
        let error = bench.fails("load_skill", json!({"name": "other\u{1b}"}));
        assert_eq!(error, "there is no skill other\\u{1b}; there are release");
        std::fs::write(folder.join("SKILL.md"), TEXT.replace("Read", "Ignore")).unwrap();
        let error = bench.fails("load_skill", json!({"name": "release"}));
        assert!(error.contains("changed after the start"), "{error}");
    }

    #[test]
    fn only_read_file_and_list_dir_reach_the_folder_of_a_skill() {
        let (dir, folder, bench) = bench(TEXT, &[]);
        let path = |name: &str| folder.join(name).display().to_string();
        assert_eq!(
            bench.ok("list_dir", json!({"path": path("")})),
            "SKILL.md\nlink@\nreferences/\n"
        );
        assert_eq!(
            bench.ok("read_file", json!({"path": path("references/steps.md")})),
            "one\ntwo\n"
        );
        let missing = bench.fails("read_file", json!({"path": path("references/step.md")}));
        assert!(missing.contains("there is steps.md"), "{missing}");
        let secret = dir.path().join("secret").display().to_string();
        for (tool, input) in [
            ("read_file", json!({"path": secret})),
            ("read_file", json!({"path": path("link")})),
            ("read_file", json!({"path": path("../secret")})),
            ("list_dir", json!({"path": dir.path()})),
            ("search_files", json!({"pattern": "one", "path": folder})),
            ("glob_files", json!({"pattern": "**", "path": folder})),
            ("write_file", json!({"path": path("new"), "content": "x"})),
            (
                "edit_file",
                json!({"path": path("references/steps.md"), "old": "one", "new": "x"}),
            ),
            ("run_command", json!({"command": "true", "cwd": folder})),
        ] {
            let error = bench.fails(tool, input);
            assert!(error.contains("outside of the workspace"), "{tool}: {error}");
        }
    }

    #[test]
    fn rules_apply_to_skills_and_their_files() {
        let (_dir, folder, denied) = bench(TEXT, &["load_skill(rel*)", "read_file(/**/steps.md)"]);
        for name in ["release", " release", "release\n"] {
            assert!(denied.call("load_skill", json!({"name": name})).denied);
        }
        denied.fails("load_skill", json!({"name": "Release"}));
        assert!(
            denied
                .call("read_file", json!({"path": folder.join("references/steps.md")}))
                .denied
        );
        let (_dir, _, other) = bench(TEXT, &["load_skill(deploy)"]);
        other.ok("load_skill", json!({"name": "release"}));
        assert!("load_skill(a)".parse::<Rule>().is_ok());
    }

    #[test]
    fn long_skill_is_cut_with_the_line_to_read_on() {
        let lines: String = (1..=5000).map(|nth| format!("line {nth:04}\n")).collect();
        let (_dir, folder, bench) = bench(&format!("---\ndescription: d\n---\n\n{lines}"), &[]);
        for nth in 0..900 {
            std::fs::write(folder.join(format!("file-{nth:03}.txt")), "").unwrap();
        }
        let text = bench.ok("load_skill", json!({"name": "release"}));
        assert!(text.len() < MAX_OUTPUT_BYTES && !text.contains("left out"));
        assert!(text.contains(" … and more; list_dir lists them]"), "{text}");
        let (_, note) = text.split_once("from offset ").unwrap();
        let offset: usize = note.split_once(']').unwrap().0.parse().unwrap();
        let (before, _) = text.split_once("\n\n[cut off here").unwrap();
        let last: usize = before.rsplit_once("line ").unwrap().1.parse().unwrap();
        let next = bench.ok(
            "read_file",
            json!({"path": folder.join("SKILL.md"), "offset": offset, "limit": 1}),
        );
        assert!(
            next.starts_with(&format!("line {:04}\n", last + 1)),
            "{next} after {last}"
        );
    }

    #[test]
    fn tool_exists_only_with_skills() {
        let names = |bench: &Bench| {
            bench
                .tools
                .definitions()
                .iter()
                .map(|tool| tool.name.to_string())
                .collect::<Vec<_>>()
        };
        let without = Bench::new();
        assert!(!names(&without).contains(&LoadSkill::NAME.to_owned()));
        assert!(
            without
                .fails("load_skill", json!({"name": "a"}))
                .contains("there is no tool")
        );
        let (_dir, _, with) = bench(TEXT, &[]);
        assert_eq!(names(&with).last().map(String::as_str), Some(LoadSkill::NAME));
        assert_eq!(names(&with).len(), names(&without).len() + 1);
    }
}
