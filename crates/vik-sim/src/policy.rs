//! Workflows: the initial one of all seeds, and valid edits of it.

use std::sync::{Arc, OnceLock};

use vik_core::approval::OnTimeout;
use vik_core::duration::Span;
use vik_core::limits::{Limit, Spend};
use vik_core::money::MicroUsd;
use vik_core::scope::Scope;
use vik_core::workflow::{
    ApprovePolicy, HandOverRetry, KeepTime, OnStateChange, QuestionPolicy, RemoveWorkspace, ResumePolicy,
    ScopeConflicts, Show, Stage, StageIntent, TrustPolicy, Turns, Untrusted, Workflow,
};
use vik_workflow_reader::load;

use crate::rng::Rng;
use crate::tracker::AUTHORS;

/// The states of issues: those of stages first, terminal ones last.
pub const STATES: [&str; 5] = ["todo", "review", "later", "done", "closed"];

/// The states that workflows may declare terminal.
pub const TERMINAL: [&str; 2] = ["done", "closed"];

const BASE: &str = "
issues: { pull: { command: list } }
agents:
  a: { runtime: command, command: [agent] }
  b: { runtime: codex, model: m }
issue:
  stages:
    plan: { when: { state: todo }, agent: a, prompt: p }
    code: { when: { state: todo }, agent: b, prompt: p }
    watch: { when: { state: todo }, agent: a, prompt: p }
    review: { when: { state: review }, agent: b, prompt: p }
";

/// Returns the workflow from which all others derive.
fn base() -> &'static Workflow {
    static BASE_WORKFLOW: OnceLock<Workflow> = OnceLock::new();
    BASE_WORKFLOW.get_or_init(|| match load(BASE).workflow {
        Some(workflow) => workflow,
        None => unreachable!("the base workflow is valid"),
    })
}

pub fn first(rng: &mut Rng) -> Arc<Workflow> {
    let mut workflow = base().clone();
    for (at, (_, edit)) in EDITS.iter().enumerate() {
        if at < 3 || rng.percent(50) {
            edit(&mut workflow, rng);
        }
    }
    Arc::new(workflow)
}

/// Returns an edited workflow, and the name of the edit.
pub fn edited(workflow: &Workflow, rng: &mut Rng) -> (Arc<Workflow>, &'static str) {
    let mut workflow = workflow.clone();
    let (detail, edit) = rng.pick(EDITS);
    edit(&mut workflow, rng);
    (Arc::new(workflow), detail)
}

type Edit = fn(&mut Workflow, &mut Rng);

const EDITS: &[(&str, Edit)] = &[
    ("slots", slots),
    ("retry", retry),
    ("terminal states", terminal),
    ("slots of agents", agents),
    ("stages", stages),
    ("life limits", life),
    ("limits of attempts", attempts),
    ("day limits", day),
    ("show", show),
    ("switches", switches),
    ("estimates", estimates),
    ("scopes", scopes),
    ("trust", trust),
    ("approvals", approvals),
    ("questions", questions),
    ("rounds", rounds),
];

/// Changes which stages wait for comments and checks in the state `later`, and the number of rounds.
fn rounds(workflow: &mut Workflow, rng: &mut Rng) {
    workflow.issue.max_rounds = rng.pick(&[0, 2, 5, 5]);
    for stage in &mut workflow.issue.stages {
        stage.when.follow_up = maybe(rng, 50, |_| "later".to_owned()).into_iter().collect();
    }
}

/// Changes the time limits and default answers of questions.
fn questions(workflow: &mut Workflow, rng: &mut Rng) {
    for stage in &mut workflow.issue.stages {
        stage.questions = maybe(rng, 60, |rng| QuestionPolicy {
            timeout: maybe(rng, 70, |rng| Span::secs(rng.pick(&[60, 600, 3_600]))),
            default: maybe(rng, 50, |_| "as before".to_owned()),
        });
    }
}

/// Changes which stages need approval to start.
fn approvals(workflow: &mut Workflow, rng: &mut Rng) {
    for stage in &mut workflow.issue.stages {
        stage.approve = maybe(rng, 40, |rng| ApprovePolicy {
            before: true,
            after: false,
            calls: Vec::new(),
            timeout: Span::secs(rng.pick(&[60, 600, 3_600])),
            on_timeout: rng.pick(&[OnTimeout::Deny, OnTimeout::Approve]),
        });
    }
}

/// Changes the scopes of stages: the whole workspace, crossing parts, or none.
fn scopes(workflow: &mut Workflow, rng: &mut Rng) {
    workflow.issue.scope_conflicts = rng.pick(&[
        ScopeConflicts::Serialize,
        ScopeConflicts::Serialize,
        ScopeConflicts::Allow,
    ]);
    for stage in &mut workflow.issue.stages {
        stage.intent = StageIntent {
            scope: maybe(rng, 40, |rng| {
                let globs: &[&str] = rng.pick(&[&["a", "b"][..], &["**"], &["a"], &["!a/x"]]);
                Scope::new(globs).unwrap_or_else(|_| Scope::nothing())
            }),
            from_issue: rng.percent(80),
            ..StageIntent::default()
        };
    }
}

fn trust(workflow: &mut Workflow, rng: &mut Rng) {
    workflow.trust = maybe(rng, 50, |rng| TrustPolicy {
        authors: vec![AUTHORS[0].to_owned()],
        labels: Vec::new(),
        untrusted: rng.pick(&[Untrusted::Hold, Untrusted::Fence]),
    });
}

fn slots(workflow: &mut Workflow, rng: &mut Rng) {
    workflow.max_issue_concurrency = rng.between(1, 4) as u32;
}

fn agents(workflow: &mut Workflow, rng: &mut Rng) {
    for profile in workflow.agents.values_mut() {
        profile.max_concurrency = maybe(rng, 40, |rng| rng.between(1, 2) as u32);
    }
}

fn estimates(workflow: &mut Workflow, rng: &mut Rng) {
    for profile in workflow.agents.values_mut() {
        profile.estimate = Spend {
            tokens: rng.between(0, 500),
            usd: MicroUsd(rng.between(0, 500_000)),
        };
    }
}

fn retry(workflow: &mut Workflow, rng: &mut Rng) {
    for stage in &mut workflow.issue.stages {
        stage.retry.max_attempts = rng.between(1, 4) as u32;
        stage.retry.initial_backoff = Span::secs(rng.pick(&[0, 1, 10, 60]));
        stage.retry.max_backoff = Span::secs(rng.pick(&[60, 300, 3_600]));
        stage.hand_over = HandOverRetry {
            max_tries: rng.between(1, 4) as u32,
            max_time: Span::secs(rng.pick(&[60, 7_200])),
            initial_backoff: Span::secs(rng.pick(&[0, 15, 60])),
            max_backoff: Span::secs(rng.pick(&[60, 1_800])),
        };
    }
}

/// Removes, restores and reorders stages.
fn stages(workflow: &mut Workflow, rng: &mut Rng) {
    let mut list: Vec<Stage> = workflow.issue.stages.clone();
    for stage in &base().issue.stages {
        if !list.iter().any(|one| one.name == stage.name) {
            list.push(stage.clone());
        }
    }
    if rng.percent(50) {
        rng.shuffle(&mut list);
    }
    if rng.percent(60) {
        list.remove(rng.below(list.len()));
    }
    if rng.percent(20) {
        let states: &[&str] = rng.pick(&[
            &["todo"][..],
            &["review"],
            &["later"],
            &["later", "review"],
            &["todo", "later"],
        ]);
        list[0].when.states = states.iter().map(|&state| state.to_owned()).collect();
    }
    workflow.issue.stages = list;
}

fn terminal(workflow: &mut Workflow, rng: &mut Rng) {
    let terminal = &TERMINAL[..rng.below(TERMINAL.len() + 1)];
    workflow.issue.terminal_states = terminal.iter().map(|&state| state.to_owned()).collect();
    workflow.issue.terminal_grace = Span::secs(rng.pick(&[0, 10, 60]));
    workflow.issue.remove_workspace = rng.pick(&[
        RemoveWorkspace::Clean,
        RemoveWorkspace::Never,
        RemoveWorkspace::Always,
    ]);
    workflow.issue.unlisted = rng.pick(&[KeepTime::Forever, KeepTime::days(7)]);
    workflow.retention.sessions = rng.pick(&[KeepTime::Forever, KeepTime::days(1)]);
    workflow.retention.scratch = workflow.retention.sessions;
    workflow.retention.ledger = workflow.retention.sessions;
}

fn life(workflow: &mut Workflow, rng: &mut Rng) {
    workflow.issue.max_attempts = rng.pick(&[2, 4, 8, 15]);
    workflow.issue.limit = limit(rng, 8);
}

fn attempts(workflow: &mut Workflow, rng: &mut Rng) {
    for stage in &mut workflow.issue.stages {
        stage.limit = limit(rng, 2);
        stage.max_concurrency = maybe(rng, 30, |rng| rng.between(1, 2) as u32);
    }
}

fn day(workflow: &mut Workflow, rng: &mut Rng) {
    workflow.day_limit = limit(rng, 12);
}

fn show(workflow: &mut Workflow, rng: &mut Rng) {
    workflow.show = maybe(rng, 50, |_| Show {
        secrets: Vec::new(),
        command: "show".to_owned(),
        timeout: Span::secs(30),
    });
}

fn switches(workflow: &mut Workflow, rng: &mut Rng) {
    for stage in &mut workflow.issue.stages {
        stage.parallel = rng.percent(25);
        stage.resume = rng.pick(&[
            ResumePolicy::Never,
            ResumePolicy::Run,
            ResumePolicy::Run,
            ResumePolicy::Issue,
        ]);
        stage.on_state_change = rng.pick(&[OnStateChange::Finish, OnStateChange::Cancel]);
        let hook = |rng: &mut Rng| maybe(rng, 40, |_| "hook".to_owned());
        stage.before_run = hook(rng);
        stage.after_run = hook(rng);
        stage.verify = hook(rng);
        stage.turns = maybe(rng, 60, |rng| Turns {
            max: rng.pick(&[2, 3, 5]),
        });
    }
    workflow.issue.after_create = maybe(rng, 40, |_| "hook".to_owned());
}

fn limit(rng: &mut Rng, scale: u64) -> Limit {
    Limit {
        tokens: maybe(rng, 35, |rng| rng.between(50, 400) * scale),
        usd: maybe(rng, 35, |rng| MicroUsd(rng.between(50_000, 400_000) * scale)),
    }
}

fn maybe<T>(rng: &mut Rng, percent: u64, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    rng.percent(percent).then(|| value(rng))
}
