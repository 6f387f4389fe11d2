//! Writes a ledger with many past attempts, to measure what history costs.
//!
//! ```sh
//! cargo run --release -p vik-store --example past_ledger -- SERVICE_FOLDER 100000
//! ```
//!
//! Each issue `past-1`, `past-2` and so on had one attempt, which succeeded, and is done. The
//! decisions are those of the scheduler. A daemon whose workflow has its home there continues from
//! this ledger.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use vik_core::attempt::AttemptResult;
use vik_core::issue::{Issue, Pull};
use vik_core::outcome::{CostSource, Outcome};
use vik_core::scheduler::{Effect, Filter, Input, Recalled, Scheduler};
use vik_core::time::{Mono, Now};
use vik_store::Ledger;

const WORKFLOW: &str = "
loop: { max_issue_concurrency: 50 }
issues: { pull: { command: list } }
agents: { a: { runtime: command, command: [agent], estimate: { usd: 0.01, tokens: 100 } } }
issue:
  terminal_states: [done]
  stages: { work: { when: { state: todo }, agent: a, prompt: p } }
";

/// The number of issues in a pull.
const AT_ONCE: usize = 50;

/// The time between two attempts; 100,000 of them take two months.
const APART: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(attempts)) = (args.next().map(PathBuf::from), args.next()) else {
        return Err("usage: past_ledger SERVICE_FOLDER ATTEMPTS".into());
    };
    let attempts: usize = attempts.parse()?;
    std::fs::create_dir_all(&folder)?;
    let workflow = vik_workflow_reader::load(WORKFLOW).workflow;
    let workflow = Arc::new(workflow.ok_or("the workflow of this example is invalid")?);
    let (ledger, stored) = Ledger::open(&folder)?;
    let ago = SignedDuration::try_from(APART * u32::try_from(attempts)?)?;
    let mut now = Now {
        wall: Timestamp::now() - ago,
        mono: Mono(Duration::ZERO),
    };
    let seed = std::array::from_fn(|at| now.wall.as_nanosecond().to_le_bytes()[at]);
    let (mut scheduler, _) = Scheduler::restore(workflow, Filter::default(), seed, stored, now);
    for first in (1..=attempts).step_by(AT_ONCE) {
        let ids = first..(first + AT_ONCE).min(attempts + 1);
        for state in ["todo", "done"] {
            let issues = issues(ids.clone(), state)?;
            let unknown = scheduler.unknown(&issues);
            let machines = ledger.recall(unknown.clone()).wait()?;
            let recalled = Recalled::new(unknown, machines);
            scheduler.handle(now, Input::PullStarted);
            let effects = scheduler.handle(now, Input::Pulled { issues, recalled });
            ledger.commit(scheduler.take_changes()).wait()?;
            for effect in effects {
                let Effect::Start(start) = effect else { continue };
                now.wall += SignedDuration::try_from(APART)?;
                now.mono = now.mono.plus(APART);
                let report = AttemptResult {
                    ran: true,
                    changed: Some(true),
                    cost_source: CostSource::None,
                    exit_code: Some(0),
                    proof: Some("subreaper".to_owned()),
                    ..AttemptResult::new(Outcome::Succeeded)
                };
                let (issue, attempt_id) = (start.issue.id, start.attempt_id);
                let ended = Input::Ended {
                    issue: issue.clone(),
                    attempt_id,
                    report,
                };
                scheduler.handle(now, ended);
            }
            ledger.commit(scheduler.take_changes()).wait()?;
        }
    }
    ledger.close()?;
    Ok(())
}

fn issues(ids: std::ops::Range<usize>, state: &str) -> Result<Vec<Issue>, Box<dyn Error>> {
    let items: Vec<_> = ids
        .map(|id| json!({"id": format!("past-{id}"), "title": format!("Issue {id}"), "state": state}))
        .collect();
    Ok(Pull::parse(serde_json::to_string(&items)?.as_bytes())?.issues)
}
