//! Single rules, each by a short story.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vik_core::attempt::{AttemptResult, Start, StopReason};
use vik_core::changes::{Decision, Stored};
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::IssueId;
use vik_core::issue::{Issue, Pull};
use vik_core::limits::{LimitScope, LimitUnit, Spend};
use vik_core::machine::{IssueMachine, ParkReason, Phase};
use vik_core::money::MicroUsd;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{
    Actor, Command, CommandResult, Effect, Filter, Hold, Input, LookupResult, Quiescence, RetryRequest,
    Scheduler,
};
use vik_core::time::{Mono, Now};
use vik_core::workflow::load;

mod closed;
mod decisions;
mod found;

/// A scheduler with a clock, and all that it asked for.
struct Story {
    scheduler: Scheduler,
    stored: Stored,
    now: Now,
    starts: Vec<Start>,
    effects: Vec<Effect>,
    decisions: Vec<Decision>,
    text: String,
}

/// `top` and `issue` are further keys of the workflow, `stage` of its stage `work`.
fn story(top: &str, issue: &str, stage: &str) -> Story {
    let text = format!(
        "{top}
issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: codex, model: m }} }}
issue:
  terminal_states: [done]
  {issue}
  stages: {{ work: {{ when: {{ state: todo }}, agent: a, prompt: p, {stage} }} }}
"
    );
    Story::of(text)
}

impl Story {
    fn of(text: String) -> Self {
        let workflow = load(&text).workflow.unwrap().into();
        Self {
            scheduler: Scheduler::new(workflow, Filter::default(), [1; 6]),
            stored: Stored::default(),
            now: Now {
                wall: Timestamp::from_second(1_800_000_000).unwrap(),
                mono: Mono(Duration::from_secs(9)),
            },
            starts: Vec::new(),
            effects: Vec::new(),
            decisions: Vec::new(),
            text,
        }
    }

    fn send(&mut self, input: Input) -> &mut Self {
        self.effects = self.scheduler.handle(self.now, input);
        let changes = self.scheduler.take_changes();
        for machine in changes.machines {
            self.stored
                .machines
                .retain(|other| other.issue().id != machine.issue().id);
            self.stored.machines.push(machine);
        }
        self.decisions.extend(changes.decisions);
        for (day, spend) in changes.days {
            self.stored.days.retain(|(other, _)| *other != day);
            self.stored.days.push((day, spend));
        }
        let starts = self.effects.iter().filter_map(|effect| match effect {
            Effect::Start(start) => Some((**start).clone()),
            _ => None,
        });
        self.starts.extend(starts);
        self
    }

    fn pull(&mut self, issues: &str) -> &mut Self {
        self.send(Input::PullStarted);
        self.send(Input::Pulled(Pull::parse(issues.as_bytes()).unwrap().issues))
    }

    fn end(&mut self, report: AttemptResult) -> &mut Self {
        let start = self.starts.last().unwrap();
        let (issue, attempt_id) = (start.issue.id.clone(), start.attempt_id);
        self.send(Input::Ended {
            issue,
            attempt_id,
            report,
        })
    }

    fn spent(&mut self, tokens: u64) -> &mut Self {
        let start = self.starts.last().unwrap();
        let input = Input::Spent {
            issue: start.issue.id.clone(),
            attempt_id: start.attempt_id,
            spend: tokens_of(tokens),
        };
        self.send(input)
    }

    fn wait(&mut self, seconds: u64) -> &mut Self {
        self.now.mono = self.now.mono.plus(Duration::from_secs(seconds));
        self.now.wall += SignedDuration::from_secs(seconds as i64);
        self.send(Input::Tick)
    }

    /// Returns the daemon dies, and another one takes over.
    fn crash(&mut self) -> Vec<Start> {
        let text = serde_json::to_string(&self.stored).unwrap();
        self.now.mono = Mono(Duration::from_secs(1));
        let workflow = load(&self.text).workflow.unwrap().into();
        let stored = serde_json::from_str(&text).unwrap();
        let seed = [self.starts.len() as u8; 6];
        let (scheduler, starts) = Scheduler::restore(workflow, Filter::default(), seed, stored, self.now);
        self.scheduler = scheduler;
        starts
    }

    fn parked(&self) -> Option<ParkReason> {
        self.scheduler.runs().find_map(|(_, run)| run.park_reason())
    }

    fn hold(&self, issue: &str) -> Option<Hold> {
        let explanation = self.scheduler.explain(&issue.into(), self.now).unwrap();
        explanation.stages.into_iter().find_map(|stage| stage.hold)
    }

    fn stops(&self) -> Vec<StopReason> {
        let stop = |effect: &Effect| match effect {
            Effect::Stop { why, .. } => Some(why.clone()),
            _ => None,
        };
        self.effects.iter().filter_map(stop).collect()
    }

    fn removes(&self) -> bool {
        self.effects
            .iter()
            .any(|effect| matches!(effect, Effect::RemoveWorkspace(_)))
    }

    fn shows(&self) -> Vec<String> {
        let show = |effect: &Effect| match effect {
            Effect::LookUp(issue) => Some(issue.to_string()),
            _ => None,
        };
        self.effects.iter().filter_map(show).collect()
    }
}

fn tokens_of(tokens: u64) -> Spend {
    Spend {
        tokens,
        usd: MicroUsd(0),
    }
}

fn of(outcome: Outcome) -> AttemptResult {
    AttemptResult {
        ran: true,
        ..AttemptResult::new(outcome)
    }
}

const TO_DO: &str = r#"[{"id":1,"state":"todo"}]"#;
const ELSEWHERE: &str = r#"[{"id":1,"state":"elsewhere"}]"#;
const DONE: &str = r#"[{"id":1,"state":"done"}]"#;

#[test]
fn endless_success_costs_at_most_the_lifetime_limit() {
    let mut story = story("", "", "");
    for round in 0..200 {
        story.pull(TO_DO);
        if story
            .scheduler
            .machine(&"1".into())
            .is_some_and(IssueMachine::is_active)
        {
            story.end(of(Outcome::Succeeded));
        }
        // The tracker flaps, loses sight of it, and the daemon dies now and then.
        match round % 4 {
            0 => drop(story.pull(ELSEWHERE)),
            1 => drop(story.pull("[]")),
            2 => drop(story.crash()),
            _ => drop(story.wait(3600)),
        }
    }
    assert_eq!(story.starts.len(), 15, "the life limit");
    assert_eq!(story.parked(), Some(ParkReason::IssueLimit));

    // In a state that it keeps, `max_attempts` bounds it.
    let mut story = self::story("", "", "");
    for _ in 0..50 {
        story.pull(TO_DO);
        if story.scheduler.quiescence(story.now) == Quiescence::Running {
            story.end(of(Outcome::Succeeded)).pull(TO_DO);
        }
        story.crash();
        story.wait(3600);
    }
    assert_eq!(story.starts.len(), 3);
    assert_eq!(story.parked(), Some(ParkReason::NoProgress));
}

#[test]
fn flapping_tracker_under_cancel_is_bounded() {
    let mut story = story("", "", "on_state_change: cancel");
    for _ in 0..60 {
        story.pull(TO_DO).pull(ELSEWHERE);
        if !story.stops().is_empty() {
            assert_eq!(story.stops(), [StopReason::StateChanged]);
            story.end(of(Outcome::Cancelled)).pull(ELSEWHERE);
        }
        story.wait(3600);
    }
    assert_eq!(story.starts.len(), 15);
}

#[test]
fn lifetime_limit_is_freed_only_by_unpark_or_a_higher_limit() {
    let mut story = story("", "limits: { attempts: 1 }", "");
    story.pull(TO_DO).end(of(Outcome::Failed)).pull(TO_DO);
    assert_eq!(story.parked(), Some(ParkReason::IssueLimit));
    story.pull(r#"[{"id":1,"state":"todo","title":"another"}]"#);
    assert_eq!(story.starts.len(), 1, "a change does not");
    story.send(Input::Command(
        7,
        Command::Retry(RetryRequest {
            issue: "1".into(),
            stage: None,
            attempts: Some(1),
        }),
        Actor::default(),
    ));
    assert!(matches!(story.effects[0], Effect::RunEvent(..)));
    assert_eq!(story.starts.len(), 2);
    story.end(of(Outcome::Failed)).pull(TO_DO);
    assert_eq!(story.parked(), Some(ParkReason::IssueLimit));
    story.text = story.text.replace("attempts: 1", "attempts: 3");
    story.crash();
    story.pull(TO_DO);
    assert_eq!(story.starts.len(), 3, "the limit was raised");
}

#[test]
fn parked_stage_is_not_freed_by_an_edit_of_its_own_attempt() {
    let mut story = story("", "", "");
    let auth = AttemptResult {
        failure_class: Some(FailureClass::Auth),
        ..of(Outcome::Failed)
    };
    story.pull(TO_DO).end(auth);
    assert_eq!(story.parked(), Some(ParkReason::Auth), "at once");
    story.crash();
    let edited = TO_DO.replace("todo\"", "todo\",\"title\":\"by the agent\"");
    story.pull(&edited).pull(ELSEWHERE).pull(&edited);
    assert_eq!(story.starts.len(), 1);
    story.pull(&edited.replace("agent", "person"));
    assert_eq!(story.starts.len(), 2);
}

#[test]
fn limit_warns_once_and_stops_once() {
    let mut story = story("", "limits: { tokens: 1000 }", "limits: { tokens: 100 }");
    story.pull(TO_DO).spent(79);
    assert!(story.effects.is_empty());
    story.spent(80);
    let [Effect::Warn { limit, .. }] = story.effects[..] else {
        panic!("{:?}", story.effects)
    };
    assert_eq!(
        (limit.scope, limit.unit, limit.spent, limit.limit),
        (LimitScope::Attempt, LimitUnit::Tokens, 80, 100)
    );
    assert!(story.spent(90).effects.is_empty());
    assert_eq!(story.spent(101).stops().len(), 1);
    assert!(story.spent(150).stops().is_empty());
    // The stop is repeated by the next daemon.
    let starts = story.crash();
    assert_eq!(starts, story.starts);
    assert_eq!(story.send(Input::Tick).stops().len(), 1);
    let over = AttemptResult {
        spend: Some(tokens_of(160)),
        ..of(Outcome::OverBudget)
    };
    story.end(over).pull(TO_DO);
    assert_eq!(story.parked(), Some(ParkReason::OverBudget));
    assert_eq!(
        story.scheduler.life(&"1".into()).spend,
        Spend {
            tokens: 160,
            usd: MicroUsd(500_000)
        }
    );
}

#[test]
fn exhausted_day_limit_holds_all_until_the_next_day() {
    let two = r#"[{"id":1,"state":"todo"},{"id":2,"state":"todo"}]"#;
    let mut story = story(
        "limits: { tokens_per_day: 100 }\nloop: { max_issue_concurrency: 1 }",
        "",
        "retry: { max_attempts: 1 }",
    );
    story.pull(two);
    assert_eq!(story.starts[0].budget.tokens, Some(100));
    assert!(
        matches!(story.spent(100).stops()[..], [StopReason::OverBudget(hit)] if hit.scope == LimitScope::Day)
    );
    let over = AttemptResult {
        spend: Some(tokens_of(100)),
        ..of(Outcome::OverBudget)
    };
    story.end(over).pull(two);
    assert_eq!(story.parked(), None, "it goes on when the day turns");
    let Some(Hold::DayLimit { until, .. }) = story.hold("2") else {
        panic!("{:?}", story.hold("2"))
    };
    assert!(matches!(story.scheduler.quiescence(story.now), Quiescence::At(_)));
    let wait = story.scheduler.next_wakeup(story.now).unwrap();
    assert!(wait <= Duration::from_secs(24 * 3600));
    story.crash();
    story.pull(two);
    assert_eq!(story.starts.len(), 1, "the day is remembered");
    // The clock jumps to the next day, and back.
    let (before, next) = (story.now.wall, until);
    story.now.wall = next;
    story.send(Input::Tick);
    assert_eq!(story.starts.len(), 2);
    story.end(of(Outcome::Succeeded));
    story.now.wall = before;
    story.pull(two).wait(3600);
    assert_eq!(story.starts.len(), 2, "the older day is as it was");
}

#[test]
fn terminal_issue_gets_its_grace_and_loses_its_workspace() {
    let mut story = story("", "terminal_grace: 60s", "");
    story.pull(TO_DO).pull(DONE).wait(59);
    assert!(story.stops().is_empty());
    story.pull(TO_DO).pull(DONE).wait(59);
    assert!(story.stops().is_empty(), "the grace begins again");
    assert_eq!(story.wait(1).stops(), [StopReason::Terminal]);
    story.end(of(Outcome::Cancelled));
    assert!(!story.removes());
    story.pull(DONE);
    assert!(story.removes());
    assert!(!story.pull(DONE).removes(), "asked for once");
    let kept = Input::WorkspaceRemoved {
        issue: "1".into(),
        removed: false,
    };
    story.send(kept);
    assert!(!story.pull(DONE).removes());
    let edited = r#"[{"id":1,"state":"done","title":"x"}]"#;
    assert!(story.pull(edited).removes(), "it is another issue now");
}

#[test]
fn workspace_of_an_issue_closed_meanwhile_is_removed_at_boot() {
    let mut story = story("", "", "");
    story.send(Input::Workspaces(vec!["1".into(), "2".into()]));
    assert!(story.scheduler.wanted().known.contains_key(&IssueId::from("1")));
    story.pull(DONE);
    assert!(story.removes());
}

#[test]
fn lookup_runs_right_before_the_start() {
    let text = story("", "", "").text;
    let mut story = Story::of(text.replace("command: list }", "command: list }, show: { command: look }"));
    let shown = |seen| Input::LookupFinished {
        issue: "1".into(),
        result: seen,
    };
    let snapshot = |text: &str| {
        let mut issues = Pull::parse(text.as_bytes()).unwrap().issues;
        LookupResult::Snapshot(Box::new(issues.remove(0)))
    };
    story.pull(TO_DO);
    assert_eq!((story.shows(), story.starts.len()), (vec!["1".to_owned()], 0));
    assert_eq!(story.hold("1"), Some(Hold::LookupPending));
    story.send(shown(snapshot(ELSEWHERE)));
    assert_eq!(story.starts.len(), 0, "it moved");
    story.pull(TO_DO).send(shown(LookupResult::Unknown));
    assert_eq!(story.hold("1"), Some(Hold::LookupFailed));
    assert!(story.wait(9).shows().is_empty());
    story.pull(TO_DO).send(shown(snapshot(TO_DO)));
    assert_eq!(story.starts.len(), 1);
    // Absent from the pull, and missing.
    assert_eq!(story.pull("[]").shows(), ["1"]);
    story.send(shown(LookupResult::Missing)).wait(60);
    assert_eq!(story.stops(), [StopReason::Missing]);
    story.end(of(Outcome::Cancelled)).pull("[]");
    assert!(story.removes());
}

#[test]
fn interrupted_attempt_is_resumed_by_the_same_agent() {
    let mut story = story("", "", "");
    let cut = |outcome, id: Option<&str>| AttemptResult {
        provider_session_id: id.map(ToOwned::to_owned),
        ..of(outcome)
    };
    story
        .pull(TO_DO)
        .end(cut(Outcome::TimedOut, Some("x")))
        .pull(TO_DO)
        .wait(600);
    let resume = story.starts[1].resume.clone().unwrap();
    assert_eq!(
        (resume.attempt_id, &*resume.provider_session_id),
        (story.starts[0].attempt_id, "x")
    );
    let failed = AttemptResult {
        resume_failed: true,
        ..cut(Outcome::Lost, Some("y"))
    };
    story.crash();
    story.end(failed).pull(TO_DO);
    assert_eq!(story.starts.len(), 3, "a lost one goes on at once");
    assert_eq!(
        story.starts[2].resume, None,
        "that conversation could not be gone on with"
    );
}

#[test]
fn quota_wait_can_be_cancelled() {
    let mut story = story("", "", "");
    let quota = AttemptResult {
        failure_class: Some(FailureClass::RateLimit),
        resets_at: Some(story.now.wall + SignedDuration::from_hours(2)),
        provider_session_id: Some("x".to_owned()),
        ..of(Outcome::Failed)
    };
    story.pull(TO_DO).end(quota.clone()).pull(TO_DO);
    assert!(matches!(story.hold("1"), Some(Hold::Quota { .. })));
    story.wait(7100);
    story.crash();
    story.pull(TO_DO);
    assert_eq!(story.starts.len(), 1);
    story.wait(130);
    assert!(story.starts[1].resume.is_some());
    let quota = AttemptResult {
        resets_at: Some(story.now.wall + SignedDuration::from_hours(2)),
        ..quota
    };
    story.end(quota).pull(TO_DO);
    story.send(Input::Command(1, Command::Cancel("1".into()), Actor::default()));
    assert!(matches!(
        story.effects.last(),
        Some(Effect::CommandResult(1, CommandResult::Done(1)))
    ));
    assert_eq!(story.parked(), Some(ParkReason::Cancelled));
    story.wait(10_000);
    assert_eq!(story.starts.len(), 2);
}

#[test]
fn older_issues_of_a_priority_start_first() {
    let mut story = story("", "", "");
    story.pull(
        r#"[{"id":"no date","state":"todo","priority":1},{"id":"new","state":"todo","priority":1,"created_at":"2026-02-01T00:00:00Z"},
            {"id":"none","state":"todo","created_at":"2020-01-01T00:00:00Z"},{"id":"old","state":"todo","priority":1,
            "created_at":"2026-02-01T00:00:00+02:00"}]"#,
    );
    let order: Vec<_> = story.starts.iter().map(|start| start.issue.id.as_str()).collect();
    assert_eq!(order, ["old", "new", "no date", "none"]);
}

#[test]
fn pull_brings_blockers_in_any_state() {
    let story = story("", "", "");
    let text = br#"[{"id":"b","state":"backlog","blocked_by":"c"},{"id":"x","state":"backlog"},{"id":"c","state":"done"},
        {"id":"a","state":"todo","blocked_by":["b", 9]},{"id":"bad","state":"todo","blocked_by":[{}]}]"#;
    let pull = Pull::parse_wanted(text, &story.scheduler.wanted()).unwrap();
    let ids: Vec<_> = pull
        .issues
        .iter()
        .map(|issue: &Issue| issue.id.as_str())
        .collect();
    assert_eq!(ids, ["a", "bad", "b", "c"]);
    assert_eq!(pull.warnings[0].field, "blocked_by");
    let mut story = story;
    story.send(Input::PullStarted).send(Input::Pulled(pull.issues));
    assert!(matches!(story.hold("a"), Some(Hold::Blocked { by, .. }) if *by == [IssueId::from("b")]));
    // What cannot be read may be anything: it holds.
    assert!(matches!(story.hold("bad"), Some(Hold::Blocked { .. })));
}

#[test]
fn thousands_that_wait_cost_neither_decisions_nor_changes() {
    let mut story = story("loop: { max_issue_concurrency: 1 }", "", "");
    let items: Vec<_> = (0..10_000)
        .map(|id| format!(r#"{{"id":{id},"state":"todo"}}"#))
        .collect();
    let text = format!("[{}]", items.join(","));
    story.pull(&text);
    for _ in 0..3 {
        story.now.mono = story.now.mono.plus(Duration::from_secs(1));
        let issues = Pull::parse_wanted(text.as_bytes(), &story.scheduler.wanted())
            .unwrap()
            .issues;
        story.scheduler.handle(story.now, Input::PullStarted);
        let effects = story.scheduler.handle(story.now, Input::Pulled(issues));
        let changes = story.scheduler.take_changes();
        assert!(effects.is_empty() && changes == Default::default());
    }
    let (some, all) = story.scheduler.waiting(story.now, 5);
    assert_eq!((some.len(), all), (5, 9_999));
}

#[test]
fn backoff_continues_after_a_restart_whatever_the_clocks_show() {
    for jump in [-100_000, 0, 50, 100_000] {
        let mut story = story("", "", "retry: { initial_backoff: 100s, max_backoff: 100s }");
        story.pull(TO_DO).end(of(Outcome::Failed)).pull(TO_DO);
        story.now.wall += SignedDuration::from_secs(jump);
        story.crash();
        story.pull(TO_DO);
        let (_, run) = story.scheduler.runs().next().unwrap();
        if jump > 100 {
            assert!(matches!(run.phase, Phase::Active { .. }), "it is over");
            continue;
        }
        assert!(story.starts.len() == 1, "{jump}");
        assert_eq!(story.wait(100).starts.len(), 2, "never longer than it was");
    }
}
