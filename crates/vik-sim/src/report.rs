//! The report of a long run, in Markdown.

use std::fmt::Write as _;

use vik_sim::{Campaign, Caught, Figures, KINDS};

pub fn markdown(campaign: &Campaign, figures: &Figures, caught: &[Caught]) -> String {
    let mut text = format!(
        "# The core in simulated worlds

Made by `cargo xtask simulate --seeds {} --steps {} --report`. The scheduler is the real one; the tracker, the agents,
people, the clocks, the ledger's commits and the deaths are simulated. After each step the invariants 1, 3, 4 and 5 of
[architecture.md](../architecture.md), the limits, the slots, what is parked, paused and blocked, and the words of `explain`
are checked against books that the simulation keeps itself; at the end of each seed the world is let come to rest, and
everything that can run must have run, or rest for a reason that is told.

| | |
| --- | ---: |
| seeds | {} |
| steps | {} |
| time | {:.0} s with {} {} |
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
        campaign.threads,
        if campaign.threads == 1 { "thread" } else { "threads" },
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
            "\n## What did not hold\n\nSeed {}, step {}: {}\n",
            failure.seed, failure.step, failure.broken
        );
    }
    text.push_str(
        "
## Planted faults

Each is put around the unchanged core: into what it is told, what it decides, what the ledger keeps or gives back, or what is
done. The steps are those of all seeds until it was found.

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
