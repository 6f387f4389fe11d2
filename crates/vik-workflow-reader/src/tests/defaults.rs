//! Every key: its default, and that what is written arrives.

use vik_core::duration::Span;
use vik_core::limits::{Limit, Spend};
use vik_core::money::MicroUsd;
use vik_core::workflow::*;

use super::*;

#[test]
fn defaults_are_those_of_the_contract() {
    let loaded = load(MINIMAL);
    assert_eq!(loaded.diagnostics, []);
    let workflow = loaded.workflow.unwrap();
    let agent = &workflow.agents["codex"];
    let stage = &workflow.issue.stages[0];
    macro_rules! table {
        ($($value:expr => $default:expr;)+) => {
            $(assert_eq!($value, $default, stringify!($value));)+
        };
    }
    table! {
        workflow.max_issue_concurrency => 10;
        workflow.max_iterations => None;
        workflow.orphan_grace => None;
        workflow.pressure => Pressure { min_available_memory: None, max_memory_pressure: None };
        workflow.day_limit => Limit { tokens: None, usd: None };
        workflow.workspace_root => WorkspaceRoot::BesideWorkflow;
        workflow.workspace_durable => None;
        agent.args => [];
        agent.args_style => ArgsStyle::Repeat;
        agent.permission => Permission::WorkspaceWrite;
        agent.command => Vec::<String>::new();
        agent.output => OutputFormat::Text;
        agent.env.len() => 0;
        agent.env_pass => Vec::<String>::new();
        agent.home => Home::User;
        agent.price => None;
        agent.provider => None;
        agent.base_url => None;
        agent.max_concurrency => None;
        agent.stream => false;
        agent.estimate => Spend { tokens: 100_000, usd: MicroUsd(500_000) };
        workflow.pull.idle => Span::secs(5);
        workflow.pull.timeout => Span::secs(60);
        workflow.show => None;
        workflow.issue.terminal_states => Vec::<String>::new();
        workflow.issue.terminal_grace => Span::secs(60);
        workflow.issue.remove_workspace => RemoveWorkspace::Clean;
        workflow.issue.unlisted => KeepTime::days(7);
        workflow.issue.max_attempts => 15;
        workflow.issue.limit => Limit { tokens: None, usd: None };
        workflow.issue.after_create => None;
        workflow.issue.before_remove => None;
        workflow.issue.hook_timeout => Span::mins(5);
        stage.before_run => None;
        stage.after_run => None;
        stage.hook_timeout => Span::mins(5);
        stage.verify => None;
        stage.timeout => Span::mins(60);
        stage.stall_timeout => Span::mins(10);
        stage.tool_timeout => Span::mins(30);
        stage.retry => Retry { max_attempts: 3, initial_backoff: Span::secs(10), max_backoff: Span::mins(5) };
        stage.hand_over => HandOverRetry::default();
        stage.limit => Limit { tokens: None, usd: None };
        stage.max_concurrency => None;
        stage.parallel => false;
        stage.on_state_change => OnStateChange::Finish;
        stage.resume => ResumePolicy::Run;
        stage.resume_prompt => None;
        stage.intent => StageIntent::default();
        stage.approve => None;
        workflow.issue.scope_conflicts => ScopeConflicts::Serialize;
        workflow.engine => None;
        workflow.trust => None;
        workflow.retention.ledger => KeepTime::Forever;
        workflow.retention.trace => KeepTime::Forever;
        workflow.retention.scratch => KeepTime::days(7);
        workflow.retention.sessions => KeepTime::days(90);
        workflow.retention_days => 7;
        workflow.log_format => LogFormat::Text;
    }
}

#[test]
fn written_values_reach_the_model() {
    let loaded = load(FULL);
    assert_eq!(loaded.diagnostics, [], "{}", loaded.render("full.yml", false));
    insta::assert_debug_snapshot!(loaded.workflow.unwrap());
}

#[test]
fn args_style_follows_the_runtime() {
    for (runtime, style) in [
        ("codex", ArgsStyle::Repeat),
        ("claude_code", ArgsStyle::Join),
        ("vex", ArgsStyle::Join),
    ] {
        let loaded = load(&minimal_with(&[(
            "runtime: codex",
            &format!("runtime: {runtime}"),
        )]));
        assert_eq!(
            loaded.workflow.unwrap().agents["codex"].args_style,
            style,
            "{runtime}"
        );
    }
}

#[test]
fn empty_workspace_section_means_the_user_home() {
    for (section, root) in [
        ("", WorkspaceRoot::BesideWorkflow),
        ("workspace:\n", WorkspaceRoot::UserHome),
        ("workspace: null\n", WorkspaceRoot::UserHome),
        ("workspace: {}\n", WorkspaceRoot::UserHome),
        ("workspace:\n  root:\n", WorkspaceRoot::UserHome),
        (
            "workspace: {root: ~/vik}\n",
            WorkspaceRoot::Path("~/vik".to_owned()),
        ),
    ] {
        let loaded = load(&format!("{section}{MINIMAL}"));
        assert_eq!(loaded.diagnostics, [], "{section}");
        assert_eq!(loaded.workflow.unwrap().workspace_root, root, "{section}");
    }
}

#[test]
fn empty_sections_are_absent_ones() {
    let text = format!(
        "loop:\nlogging:\n{}",
        minimal_with(&[("issue:\n", "issue:\n  hooks:\n")])
    );
    let loaded = load(&text);
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(loaded.workflow, load(MINIMAL).workflow);
}

#[test]
fn stages_keep_the_order_of_the_file_and_may_share_a_state() {
    let stages = load(FULL).workflow.unwrap().issue.stages;
    let names: Vec<_> = stages
        .iter()
        .map(|stage| (stage.name.as_str(), stage.when.first_state()))
        .collect();
    assert_eq!(
        names,
        [
            ("plan", "todo"),
            ("build.2", "todo"),
            ("last", "wip"),
            ("talk", "talking")
        ]
    );
    assert_eq!(stages[1].timeout, Span::mins(20), "from the merge key");
}

#[test]
fn line_breaks_and_byte_order_marks_change_nothing() {
    let workflow = load(MINIMAL).workflow;
    assert_eq!(load(&MINIMAL.replace('\n', "\r\n")).workflow, workflow);
    assert_eq!(load(&format!("\u{feff}{MINIMAL}")).workflow, workflow);
    assert_eq!(load(&format!("---\n{MINIMAL}...\n")).workflow, workflow);
}

#[test]
fn show_timeout_is_half_a_minute() {
    let loaded = load(&minimal_with(&[("  pull:", "  show: {command: x}\n  pull:")]));
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(loaded.workflow.unwrap().show.unwrap().timeout, Span::secs(30));
}

#[test]
fn money_is_read_as_it_is_written() {
    for (text, micros) in [
        ("0.07", 70_000),
        ("1.1", 1_100_000),
        ("3", 3_000_000),
        ("0.000001", 1),
        ("1e6", 1_000_000_000_000),
    ] {
        let loaded = load(&minimal_with(&[(
            "agents:\n",
            &format!("limits: {{usd_per_day: {text}}}\nagents:\n"),
        )]));
        let limit = loaded.workflow.unwrap().day_limit.usd;
        assert_eq!(limit, Some(MicroUsd(micros)), "{text}");
    }
}

#[test]
fn workflow_stored_by_an_earlier_version_is_read() {
    let workflow = load(MINIMAL).workflow.unwrap();
    let mut kept = serde_json::to_value(&workflow).unwrap();
    for (section, keys) in [
        ("", &["trust"][..]),
        ("/issue", &["scope_conflicts"]),
        ("/issue/stages/0", &["approve", "intent", "outputs"]),
    ] {
        let section = kept.pointer_mut(section).unwrap().as_object_mut().unwrap();
        for key in keys {
            assert!(section.remove(*key).is_some(), "{key}");
        }
    }
    assert_eq!(serde_json::from_value::<Workflow>(kept).unwrap(), workflow);
}
