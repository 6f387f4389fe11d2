//! Checks the text of prompts and scripts, and whether they render.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vik_base::report::{count, one_line};
use vik_core::attempt::Start;
use vik_core::ids::{AttemptId, RunId};
use vik_core::issue::Issue;
use vik_core::workflow::{Stage, Workflow};
use vik_session::attempt::{issue_context, sample_session, stage_context};
use vik_session::host::Host;
use vik_session::outputs;
use vik_template::TemplateError;
use vik_workflow::{Kind, Source, Sources};

use super::check::{Check, Group};
use super::probe::{self, Scratch};

/// A sample issue for templates, by its origin.
#[derive(Clone, Debug)]
pub(super) enum Sample {
    /// The tracker returned it.
    Pulled(Issue),
    /// It is invented, with every documented field of an issue.
    MadeUp(Issue),
}

impl Sample {
    /// Returns an issue in this state: a pulled one if possible, or else an invented one.
    pub(super) fn of(state: &str, pulled: &[Issue]) -> Option<Self> {
        match pulled.iter().find(|issue| &*issue.state == state) {
            Some(issue) => Some(Self::Pulled(issue.clone())),
            None => made_up(state).map(Self::MadeUp),
        }
    }

    fn issue(&self) -> &Issue {
        match self {
            Self::Pulled(issue) | Self::MadeUp(issue) => issue,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Pulled(issue) => format!("issue {}", one_line(issue.id.as_str(), 40)),
            Self::MadeUp(_) => "a sample issue".to_owned(),
        }
    }
}

fn made_up(state: &str) -> Option<Issue> {
    let item = json!({
        "id": "1",
        "title": "A sample issue",
        "state": state,
        "description": "What is to be done.",
        "priority": 1,
        "created_at": "2026-01-01T00:00:00Z",
        "blocked_by": [],
        "labels": [],
        "url": "https://example.invalid/issues/1",
    });
    Issue::parse(&item.to_string()).ok()
}

/// The result of rendering a template.
pub(super) struct Rendered {
    pub(super) check: Check,
    /// The rendered script, if the template is a script.
    script: Option<String>,
}

impl Rendered {
    /// Returns the check after the shell has checked the script's syntax without running it.
    pub(super) async fn check(
        self,
        host: &Host,
        scratch: Option<&Scratch>,
        cancel: &CancellationToken,
    ) -> Check {
        let (Some(script), Some(scratch)) = (self.script, scratch) else {
            return self.check;
        };
        match probe::shell_syntax(host, scratch, &script, cancel).await {
            None => self.check,
            Some(shell_error) => {
                let message = format!("the rendered script has a syntax error: {shell_error}");
                Check::error(Group::Templates, self.check.check, "shell_syntax", message)
                    .hint("line numbers refer to the rendered script; show it with `vik run --dry-run`")
            }
        }
    }
}

/// Renders every valid template as `run` would, with an issue in the state of its stage.
pub(super) fn render(
    host: &Host,
    workflow: &Workflow,
    sources: &Sources<'_>,
    pulled: &[Issue],
) -> Vec<Rendered> {
    let valid = sources.all.iter().filter(|source| source.is_valid);
    valid
        .filter_map(|source| render_one(host, workflow, source, pulled))
        .collect()
}

fn render_one(host: &Host, workflow: &Workflow, source: &Source<'_>, pulled: &[Issue]) -> Option<Rendered> {
    // Templates of workspaces belong to no stage: any issue in the state of a stage is suitable.
    let stages = &workflow.issue.stages;
    let stage_with_issue = || {
        stages
            .iter()
            .find(|stage| pulled.iter().any(|issue| issue.is_taken_by(&stage.when)))
    };
    let stage = source
        .stage
        .or_else(stage_with_issue)
        .or_else(|| stages.first())?;
    let sample = Sample::of(stage.when.first_state(), pulled)?;
    let context = context(host, source.kind, stage, sample.issue());
    let kind_name = source.kind.name();
    let check = match source.stage {
        // A stage can have several of these.
        Some(_) if source.kind == Kind::Output => source.path.clone(),
        Some(stage) => format!("{kind_name}.{}", stage.name),
        None => kind_name.to_owned(),
    };
    let mut rendered_script = None;
    let rendered = match source.kind {
        Kind::Prompt | Kind::ResumePrompt => vik_template::prompt(&source.text, &context).map(|prompt| {
            let length: usize = prompt.join(std::iter::empty::<&str>()).chars().count();
            match prompt.commands().count() {
                0 => format!("{length} characters"),
                1 => format!("{length} characters and the output of a command"),
                n => format!("{length} characters and the output of {n} commands"),
            }
        }),
        _ => vik_template::script(&source.text, &context).map(|script| {
            let lines = script.trim().lines().count();
            rendered_script = Some(script);
            count(lines, "line")
        }),
    };
    let name = sample.name();
    let check = match rendered {
        Ok(size) => Check::ok(Group::Templates, check, format!("renders with {name} ({size})")),
        Err(error) => {
            let message = format!("cannot render {} with {name}: {error}", place(source));
            let failed = match sample {
                Sample::Pulled(_) => Check::error(Group::Templates, check, error.code(), message),
                // A real issue may have fields that an invented one lacks.
                Sample::MadeUp(_) if may_be_field(&error, pulled) => {
                    Check::warning(Group::Templates, check, error.code(), message)
                }
                Sample::MadeUp(_) => Check::error(Group::Templates, check, error.code(), message),
            };
            let lacking_fields_hint = "test optional fields with `{% if issue.name is defined %}`";
            match (error.hint(), &error) {
                (Some(hint), TemplateError::Undefined { name, .. }) if name.starts_with("issue.") => {
                    failed.hint(format!("{hint}; {lacking_fields_hint}"))
                }
                (Some(hint), _) => failed.hint(hint),
                (None, TemplateError::Undefined { .. }) => failed.hint(lacking_fields_hint),
                (None, _) => failed,
            }
        }
    };
    Some(Rendered {
        check,
        script: rendered_script,
    })
}

/// Returns whether an error with an invented issue may not occur with a real one: it is about a field
/// that trackers may add. A name that resembles a field of every issue is a slip, unless a pulled
/// issue has it.
fn may_be_field(error: &TemplateError, pulled: &[Issue]) -> bool {
    const OF_EVERY_ISSUE: [&str; 6] = ["id", "title", "state", "description", "workdir", "stage"];
    let TemplateError::Undefined { name, suggestion, .. } = error else {
        return true;
    };
    let Some(field) = name.strip_prefix("issue.") else {
        return false;
    };
    let similar = suggestion.as_deref().and_then(|name| name.strip_prefix("issue."));
    !similar.is_some_and(|similar| OF_EVERY_ISSUE.contains(&similar))
        || pulled.iter().any(|issue| issue.fields().contains_key(field))
}

fn place(source: &Source<'_>) -> String {
    source
        .file
        .as_ref()
        .map_or_else(|| source.path.clone(), |file| file.display().to_string())
}

fn context(host: &Host, kind: Kind, stage: &Stage, issue: &Issue) -> Value {
    if kind == Kind::Show {
        return json!({ "issue": { "id": issue.id } });
    }
    let workdir = host.layout.issue_dir(&issue.id);
    if matches!(kind, Kind::AfterCreate | Kind::BeforeRemove) {
        return issue_context(host, issue, &workdir).into();
    }
    let nil = uuid::Uuid::nil();
    let start = Start {
        issue: issue.clone(),
        stage: stage.clone(),
        run: RunId(nil),
        attempt_id: AttemptId(nil),
        worker: None,
        attempt: 1,
        fencing_number: 0,
        turn: 0,
        previous: None,
        resume: None,
        budget: Default::default(),
        intent: Default::default(),
        fenced: false,
        message: None,
        messages: Vec::new(),
        answers: Vec::new(),
        handed_back: None,
        activity: Default::default(),
    };
    let mut context = stage_context(host, &start, &workdir);
    if kind == Kind::AfterRun {
        let log = host.layout.issue_sessions_dir(&issue.id).join("sample.jsonl");
        context.insert("session".to_owned(), sample_session(&log));
    }
    if kind == Kind::Output {
        context.insert("output".to_owned(), outputs::sample());
    }
    context.into()
}
