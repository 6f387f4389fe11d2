//! `vex skills`: the skills of a run, and how `vex exec` finds and reports them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde::Serialize;

use super::args::ChoiceArgs;
use super::output;
use crate::config::Settings;
use crate::events::{ExitReason, Journal, ListedSkill};
use crate::skills::text::{one_line, shown};
use crate::skills::{Skill, SkillError, SkillSources, Skills};
use crate::tools::{LoadSkill, Tool, Toolbox};

/// The length of a description in the table, in characters.
const DESCRIPTION: usize = 60;

/// `vex skills`
#[derive(Debug, Args)]
pub struct SkillsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also list the skill in this folder; can be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub skill: Vec<PathBuf>,
    /// Which workspace and settings.
    #[command(flatten)]
    pub choice: ChoiceArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    skills: Vec<&'a Skill>,
    warnings: Vec<&'a String>,
    /// The number of skills of a project that is not trusted.
    untrusted: usize,
}

pub(super) fn run(args: &SkillsArgs) -> ExitReason {
    let settings = match args.choice.load(Vec::new()) {
        Ok(loaded) => loaded.settings,
        Err(error) => return output::fail(ExitReason::Config, &output::with_source(&error)),
    };
    let skills = match args.choice.dir().canonicalize() {
        Ok(cwd) => load(&args.skill, &settings, &cwd),
        Err(error) => {
            let message = format!("cannot open {}: {error}", args.choice.dir().display());
            return output::fail(ExitReason::Config, &message);
        }
    };
    let skills = match skills {
        Ok(skills) => skills,
        Err(error) => return output::fail(ExitReason::Config, &error.to_string()),
    };
    let hint = skills.untrusted_hint();
    let warnings: Vec<&String> = skills
        .warnings
        .iter()
        .chain(&skills.hidden)
        .chain(&hint)
        .collect();
    if args.json {
        return output::print_json(&Report {
            skills: skills.iter().collect(),
            untrusted: skills.untrusted.as_ref().map_or(0, |(_, count)| *count),
            warnings,
        });
    }
    for warning in warnings {
        output::warn(&format!("warning: {warning}"));
    }
    if skills.is_empty() {
        output::warn(none_found(&settings));
    }
    let row = |skill: &Skill| {
        vec![
            skill.name.clone(),
            skill.origin.as_str().to_owned(),
            one_line(&skill.description, DESCRIPTION),
            shown(&skill.path),
        ]
    };
    output::print(&output::columns(&skills.iter().map(row).collect::<Vec<_>>()))
}

/// Returns the line for people about an empty list.
fn none_found(settings: &Settings) -> &'static str {
    if settings.skills {
        "no skills found in `.agents/skills` and `.claude/skills` of your home directory, and of the folders \
         from here to the root of the repository"
    } else {
        "no skills found: `skills = false` in the settings turns the search off"
    }
}

/// Finds the skills of a run in this workspace.
///
/// # Errors
/// When one of `folders` cannot be used.
pub(super) fn load(folders: &[PathBuf], settings: &Settings, cwd: &Path) -> Result<Skills, SkillError> {
    if folders.is_empty() && !settings.skills {
        return Ok(Skills::default());
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    Skills::load(&SkillSources {
        folders,
        search: settings.skills,
        cwd,
        home: home.as_deref().map(Path::new),
        trusted: &settings.trusted_projects,
    })
}

/// Emits the skills of a run and the warnings about them.
pub(super) fn report(journal: &Journal, skills: &Skills) {
    let listed: Vec<ListedSkill<'_>> = skills
        .iter()
        .map(|skill| ListedSkill {
            name: &skill.name,
            origin: skill.origin,
            path: shown(&skill.path),
            sha256: &skill.sha256,
        })
        .collect();
    if !listed.is_empty() {
        journal.skills(&listed);
    }
    for warning in skills.warnings.iter().chain(&skills.untrusted_hint()) {
        journal.warning(warning);
    }
}

/// Returns the catalogue for the system prompt of a model with this context window. Emits a warning
/// if the model does not see all skills.
pub(super) fn catalogue(journal: &Journal, tools: &Toolbox, window: Option<u64>) -> String {
    let skills = tools.skills();
    if skills.is_empty() {
        return String::new();
    }
    if !tools
        .definitions()
        .iter()
        .any(|tool| tool.name == LoadSkill::NAME)
    {
        journal.warning("the skills are not used, since `tools` does not contain load_skill");
        return String::new();
    }
    let catalogue = skills.catalogue(window, |skill| tools.may_load(skill));
    if catalogue.left_out > 0 {
        journal.warning(&format!(
            "{} of {} skills do not fit into the catalogue: remove some, or shorten their descriptions",
            catalogue.left_out,
            skills.iter().len()
        ));
    }
    catalogue.text
}
