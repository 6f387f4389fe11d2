//! The table of the agents, with targets.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::ValueEnum;

use super::super::metric::{Statistic, Target, ratio, shown};
use super::run::RunFigures;
use super::tasks::Task;

/// The usage of an agent, by task and run.
pub type Figures = BTreeMap<Task, Vec<RunFigures>>;

struct Row {
    label: &'static str,
    unit: &'static str,
    value: fn(&RunFigures) -> f64,
    /// The target for each task.
    target: fn(Task) -> Target,
}

const TENTH: Target = Target::Part(0.1);

/// Returns a target for the task without a tool call only.
fn of_nothing(task: Task, target: Target) -> Target {
    if task == Task::Nothing {
        target
    } else {
        Target::None
    }
}

const ROWS: &[Row] = &[
    Row {
        label: "start to first request",
        unit: "ms",
        value: |ran| ran.first_request_ms,
        target: |task| of_nothing(task, Target::Below(15.0)),
    },
    Row {
        label: "wall",
        unit: "ms",
        value: |ran| ran.wall_ms,
        target: |task| if is_answer(task) { Target::None } else { TENTH },
    },
    Row {
        label: "CPU of all its processes",
        unit: "ms",
        value: |ran| ran.cpu_ms,
        target: |task| match task {
            Task::FiftyCalls => Target::Below(120.0),
            _ => TENTH,
        },
    },
    Row {
        label: "of it, the agent's own process",
        unit: "ms",
        value: |ran| ran.own_cpu_ms,
        target: |task| match task {
            Task::FiftyCalls => Target::Below(60.0),
            _ => Target::None,
        },
    },
    Row {
        label: "peak memory",
        unit: "MB",
        value: |ran| ran.peak_mb,
        target: |_| Target::Below(15.0),
    },
    Row {
        label: "first request",
        unit: "kB",
        value: |ran| ran.first_kb,
        target: |task| of_nothing(task, Target::Part(1.0 / 3.0)),
    },
    Row {
        label: "sent in all",
        unit: "kB",
        value: |ran| ran.sent_kb,
        target: |_| Target::None,
    },
];

/// Returns whether the server takes most of the time to send the answer.
fn is_answer(task: Task) -> bool {
    matches!(task, Task::Answer | Task::LongAnswer)
}

pub fn table(names: &[&str], figures: &[Figures], rounds: u16) -> String {
    let mut text = format!("| median of {rounds} rounds |");
    for name in names {
        let _ = write!(text, " {name} |");
    }
    text.push_str(" of the lighter | target |\n| --- |");
    text.push_str(&" ---: |".repeat(names.len() + 1));
    text.push_str(" --- |\n");
    for &task in Task::value_variants() {
        let mut label = task.label().to_owned();
        for row in ROWS {
            let values: Vec<Option<f64>> = figures
                .iter()
                .map(|figures| median(figures, task, row.value))
                .collect();
            let Some(ours) = values.first().copied().flatten() else {
                continue;
            };
            let lightest = values[1..].iter().flatten().copied().reduce(f64::min);
            let _ = write!(text, "| {label}: {} |", row.label);
            for value in &values {
                let _ = write!(text, " {} |", shown(*value, row.unit));
            }
            let share = |part: f64| format!("at most {part:.2}");
            let verdict = (row.target)(task).verdict(ours, lightest, row.unit, share);
            let _ = writeln!(text, " {} | {verdict} |", ratio(ours, lightest));
            "—".clone_into(&mut label);
        }
    }
    if let Some(ratio) = growth(&figures[0]) {
        let reached = if ratio < 2.5 { "reached" } else { "**not reached**" };
        let _ = writeln!(
            text,
            "\nCPU of vex for the answer of 200 KB, against that of 100 KB: {ratio:.2} times (linear is 2, target < 2.5: {reached})."
        );
    }
    text
}

/// Returns the ratio of the CPU times for answers of double and single length.
fn growth(vex: &Figures) -> Option<f64> {
    let cpu = |task| median(vex, task, |ran| ran.cpu_ms);
    Some(cpu(Task::LongAnswer)? / cpu(Task::Answer)?)
}

fn median(figures: &Figures, task: Task, value: fn(&RunFigures) -> f64) -> Option<f64> {
    Statistic::Median.of(figures.get(&task)?.iter().map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(cpu_ms: f64) -> RunFigures {
        RunFigures {
            first_request_ms: 14.0,
            wall_ms: 20.0,
            cpu_ms,
            own_cpu_ms: cpu_ms,
            peak_mb: 16.0,
            first_kb: 9.0,
            sent_kb: 9.0,
        }
    }

    #[test]
    fn table_shows_medians_ratios_and_targets() {
        let figures =
            |cpu: &[f64]| Figures::from([(Task::Nothing, cpu.iter().map(|cpu| ran(*cpu)).collect())]);
        let all = [figures(&[9.0, 5.0, 6.0]), figures(&[600.0]), figures(&[90.0])];
        let text = table(&["vex", "a 1", "b 2"], &all, 3);
        assert!(text.contains("| vex | a 1 | b 2 | of the lighter |"), "{text}");
        assert!(
            text.contains("first request | 14.0 ms | 14.0 ms | 14.0 ms | 1.00 | < 15 ms: reached |"),
            "{text}"
        );
        assert!(
            text.contains("processes | 6.00 ms | 600 ms | 90.0 ms | 0.07 | at most 0.10: reached |"),
            "{text}"
        );
        assert!(
            text.contains("memory | 16.0 MB | 16.0 MB | 16.0 MB | 1.00 | < 15 MB: **not reached** |"),
            "{text}"
        );
        assert!(
            !text.contains("50 tool calls"),
            "what was not measured is not shown: {text}"
        );
    }

    #[test]
    fn table_shows_the_growth() {
        let figures = |cpu: f64| vec![ran(cpu)];
        let vex = Figures::from([(Task::Answer, figures(30.0)), (Task::LongAnswer, figures(90.0))]);
        assert!(
            table(&["vex"], &[vex], 1).contains("3.00 times (linear is 2, target < 2.5: **not reached**)")
        );
    }
}
