//! `vik run --dry-run`: pulls once and shows what would start, with rendered prompts and hooks.
//! Starts nothing.

use std::sync::Arc;

use serde_json::{Value, json};
use vik_base::report::{ErrorCode, Exit, Failure, chain, clean, count, one_line};
use vik_core::attempt::Start;
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_core::intent::Intent;
use vik_core::machine::IssueMachine;
use vik_core::scheduler::{Filter, Hold, Input, Recalled, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::trust::Trust;
use vik_daemon::{Instance, host};
use vik_orchestrator::api_view;
use vik_session::attempt::{activity, intent, issue_context, stage_context};
use vik_session::attempt::{question_file, question_section};
use vik_session::host::Host;
use vik_session::outputs;
use vik_store::ledger::Reader;
use vik_template::Part;
use vik_workflow::LoadedWorkflow;

use super::doctor::Scratch;
use super::{CliResult, print, runtime};

/// Shows what `run` would start now.
pub fn run(loaded: &LoadedWorkflow, filter: Filter) -> CliResult {
    let workflow = &loaded.workflow;
    let instance = Instance::of(&loaded.path)?;
    let host = host(&loaded.path, workflow, &instance)?;
    let runtime = runtime()?;
    let scratch = Scratch::new().map_err(|error| {
        Failure::failed(
            ErrorCode::Temporary,
            format!("cannot create a folder in {}", std::env::temp_dir().display()),
            &error,
        )
    })?;
    let stderr = scratch.path().join("pull.stderr");
    let pull = runtime.block_on(vik_orchestrator::intake::pull(
        &host,
        workflow,
        &stderr,
        std::future::pending(),
    ));
    let pull = pull.result.map_err(|error| {
        Failure::new(Exit::NotFound, ErrorCode::PullFailed, "the pull failed").with_source(&error)
    })?;
    let pulled = pull.issues.len();
    for item in &pull.skipped {
        super::warn(&format!("skipped item {}: {}\n", item.index, item.reason));
    }
    for warning in &pull.warnings {
        super::warn(&format!("{}\n", one_line(&warning.to_string(), 200)));
    }
    let named = filter.issues.clone();
    let now = Now {
        wall: jiff::Timestamp::now(),
        mono: Mono(std::time::Duration::ZERO),
    };
    // A ledger that cannot be read would make a daemon exit.
    let ledger = Reader::open(&host.layout.service_dir())?;
    let stored = ledger.as_ref().map(Reader::stored).transpose();
    let stored = stored?.unwrap_or_default();
    let (mut scheduler, _) = Scheduler::restore(Arc::clone(workflow), filter, [0; 6], stored, now);
    let unknown = scheduler.unknown(&pull.issues);
    let machines = ledger.map(|ledger| ledger.recall(&unknown)).transpose();
    let machines = machines?.unwrap_or_default();
    let recalled = Recalled::new(unknown, machines);
    let global = scheduler.global_hold(now);
    scheduler.handle(now, Input::PullStarted);
    // Nothing starts in this copy.
    scheduler.handle(now, Input::Drain);
    let issues = pull.issues;
    scheduler.handle(now, Input::Pulled { issues, recalled });
    let starts = match &global {
        None => scheduler.candidates(now),
        Some(_) => Vec::new(),
    };
    let max_sessions = vik_orchestrator::OpenFiles::of_daemon().max_sessions();
    let slots = workflow.max_issue_concurrency.min(max_sessions);
    let mut out = format!(
        "{}; {} would start, at most {slots} at a time\n",
        count(pulled, "issue"),
        starts.len()
    );
    if let Some(hold) = &global {
        out.push_str(&format!("nothing starts: {}\n", api_view::hold(hold).detail));
    }
    for (issue, stage) in &starts {
        let (run, attempt_id) = (RunId(uuid::Uuid::nil()), AttemptId(uuid::Uuid::nil()));
        let start = Start {
            issue: (*issue).clone(),
            stage: (*stage).clone(),
            run,
            attempt_id,
            worker: None,
            attempt: scheduler
                .machine(&issue.id)
                .and_then(|machine| machine.run(&stage.name))
                .map_or(1, |run| run.attempts + 1),
            fencing_number: 0,
            turn: 0,
            previous: None,
            resume: None,
            budget: Default::default(),
            intent: Intent::resolve(stage, issue).unwrap_or_default(),
            fenced: workflow
                .trust
                .as_ref()
                .is_some_and(|trust| trust.judge(issue) == Trust::Fenced),
            message: None,
            messages: Vec::new(),
            answers: Vec::new(),
            handed_back: None,
            activity: scheduler
                .machine(&issue.id)
                .map(|machine| machine.new_activity(stage, false, workflow.trust.as_ref()))
                .unwrap_or_default(),
        };
        out.push_str(&start_text(&host, loaded, &start));
    }
    out.push_str(&held(&scheduler, now));
    let is_listed = |id: &&IssueId| scheduler.machine(id).is_some_and(IssueMachine::is_present);
    for id in named.iter().filter(|id| !is_listed(id)) {
        let id = one_line(id.as_str(), 60);
        out.push_str(&format!("not found: the pull did not return issue {id}\n"));
    }
    print(&out);
    let missing = named
        .iter()
        .any(|id| !starts.iter().any(|(issue, _)| issue.id == *id));
    Ok(if missing { Exit::NotFound } else { Exit::Done })
}

/// Returns the text on issues that would not start, although a stage takes their state.
fn held(scheduler: &Scheduler, now: Now) -> String {
    let mut ids: Vec<_> = scheduler.issues().collect();
    ids.sort();
    let mut out = String::new();
    for id in ids {
        let stages = scheduler
            .explain(id, now)
            .map(|explained| explained.stages)
            .unwrap_or_default();
        let hold = stages.iter().find_map(|stage| match &stage.hold {
            // The copy drains, and the summary names the slots.
            None | Some(Hold::Draining | Hold::NoStage | Hold::NotPresent | Hold::Terminal) => None,
            hold => hold.as_ref(),
        });
        if let Some(hold) = hold {
            let why = api_view::hold(hold).detail;
            out.push_str(&format!("\n── {} is held: {why}\n", one_line(id.as_str(), 60)));
        }
    }
    out
}

fn start_text(host: &Host, loaded: &LoadedWorkflow, start: &Start) -> String {
    let workdir = host.layout.issue_dir(&start.issue.id);
    let stage = &start.stage;
    let mut out = format!(
        "\n── {} {} · {} · {}\n   workspace: {}{}\n",
        one_line(start.issue.id.as_str(), 60),
        stage.name,
        stage.agent,
        one_line(&start.issue.title, 80),
        workdir.display(),
        if workdir.exists() {
            ""
        } else {
            " (would be created)"
        }
    );
    let context = stage_context(host, start, &workdir);
    if !workdir.exists()
        && let Some(source) = &loaded.workflow.issue.after_create
    {
        script(
            &mut out,
            "after_create",
            source,
            &issue_context(host, &start.issue, &workdir).into(),
        );
    }
    let value = Value::Object(context.clone());
    if let Some(state) = &stage.start_state
        && *start.issue.state != *state.state
    {
        script(&mut out, "start_state", &state.command, &value);
    }
    if let Some(source) = &stage.before_run {
        script(&mut out, "before_run", source, &value);
    }
    let fence = activity::fence(start, &value);
    let prompt = loaded
        .prompts
        .source(&host.workflow_dir, &stage.prompt)
        .and_then(|source| {
            let prompt =
                vik_template::fenced_prompt(&source, &value, &fence).map_err(|error| chain(&error))?;
            let file = host.attempt_files(start).outputs_dir().join(outputs::FILE_NAME);
            let asked = outputs::section(stage.outputs.as_ref(), &file, &[], &source, &fence);
            let questions = question_section(&question_file(&host.attempt_files(start)));
            Ok((
                prompt,
                intent::section(&start.intent, &source, &fence)
                    + &activity::section(start, &source, &fence)
                    + &asked
                    + &questions,
            ))
        });
    let prompt = match prompt {
        Ok((prompt, intent)) => {
            let text = prompt.parts.iter().fold(String::new(), |text, part| match part {
                Part::Text(piece) => text + piece,
                Part::Command { script, .. } => format!("{text}[output of: {}]", one_line(script, 120)),
            });
            fence.with_explanation(text + &intent)
        }
        Err(error) => format!("cannot render: {error}"),
    };
    block(&mut out, "prompt", &prompt);
    if let Some(source) = &stage.verify {
        script(&mut out, "verify", source, &value);
    }
    if let Some(source) = &stage.after_run {
        let mut context = context;
        let session = json!({"id": "", "outcome": "succeeded", "failure_class": "", "reason": "", "exit_code": 0,
            "last_message": "", "usage": {}, "cost": null, "cost_usd": null, "log": "", "log_path": "", "result": null});
        context.insert("session".to_owned(), session);
        script(&mut out, "after_run (if it succeeds)", source, &context.into());
    }
    out
}

fn script(out: &mut String, name: &str, source: &str, context: &Value) {
    let text = vik_template::script(source, context)
        .unwrap_or_else(|error| format!("cannot render: {}", chain(&error)));
    block(out, name, &text);
}

fn block(out: &mut String, name: &str, text: &str) {
    out.push_str(&format!("   {name}:\n"));
    for line in clean(text.trim_end()).lines() {
        out.push_str(&format!("   │ {line}\n"));
    }
}
