//! The report of a long run, in Markdown.

use std::fmt::Write as _;

use vik_core::plural::count;
use vik_sim::{Campaign, Caught, Figures, KINDS};

pub fn markdown(campaign: &Campaign, figures: &Figures, caught: &[Caught]) -> String {
    let mut text = format!(
        "# The core in simulated worlds

`cargo xtask simulate --seeds {} --steps {} --report` writes this page. The scheduler is the
real one. The tracker, the agents, people, the clocks, the commits of the ledger and the crashes are
simulated.

After each step, the simulation checks the invariants 1, 3, 4 and 5 of
[architecture.md](../architecture.md), the limits, the slots, the parked, paused and blocked issues,
and the output of `explain` against its own records. At the end of each seed, the simulated world
becomes quiet: everything that can run must then have run, or have a reported reason not to.

| | |
| --- | ---: |
| seeds | {} |
| steps | {} |
| time | {:.0} s with {} |
| steps per second | {:.0} |
| hash over all seeds | `{:016x}` |
| invariants broken | {} |

## What happened

| event | times |
| --- | ---: |
",
        campaign.seeds,
        campaign.steps,
        figures.seeds,
        figures.steps,
        figures.took.as_secs_f64(),
        count(campaign.threads as u64, "thread"),
        figures.rate(),
        figures.hash,
        u8::from(figures.failure.is_some()),
    );
    for (kind, count) in KINDS.iter().zip(&figures.counts) {
        let _ = writeln!(text, "| {kind} | {count} |");
    }
    if let Some(failure) = &figures.failure {
        let _ = write!(
            text,
            "\n## Broken invariant\n\nSeed {}, step {}: {}\n",
            failure.seed, failure.step, failure.broken
        );
    }
    text.push_str(
        "
## Planted faults

Each fault is planted around the unchanged core: in its inputs, in its decisions, in what the ledger
stores or returns, or in the effects that are carried out. The number of steps is the sum over all
seeds until the fault was found.

| fault | what it does | found after | by |
| --- | --- | ---: | --- |
",
    );
    for caught in caught {
        let (after, by) = match &caught.found {
            Some((failure, steps)) => (format!("{steps} steps"), failure.broken.invariant),
            None => ("not found".to_owned(), ""),
        };
        let (name, about) = (caught.fault.name(), caught.fault.about());
        let _ = writeln!(text, "| `{name}` | {about} | {after} | {by} |");
    }
    text
}
