//! The tables of `cargo xtask live`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::agents::Agent;
use super::languages::Language;
use super::tasks::{Group, Task};
use super::{Attempt, COMPARED};
use crate::repo::{self, TaskResult};

const PAGE: &str = "docs/performance.md";
const MARKS: (&str, &str) = (
    "<!-- begin: cargo xtask live -->",
    "<!-- end: cargo xtask live -->",
);

/// Returns the results so far as Markdown: the groups, what they cost, and the other agents.
pub fn tables(done: &[Attempt], all: &[Task]) -> String {
    let vex: Vec<&Attempt> = done.iter().filter(|one| one.agent == Agent::Vex).collect();
    let mut text = String::new();
    for group in Group::ALL {
        let tasks: Vec<_> = all.iter().filter(|task| task.group == group).collect();
        append_group(&mut text, group, &tasks, &vex);
        let baseline: Vec<_> = done.iter().filter(|one| one.agent == Agent::VexText).collect();
        if group == Group::Work && !baseline.is_empty() {
            append_baseline(&mut text, &baseline, &vex);
        }
    }
    let protocols: BTreeSet<_> = vex.iter().map(|one| one.protocol.as_str()).collect();
    let protocols: Vec<_> = protocols.into_iter().collect();
    let _ = writeln!(
        text,
        "Turns, tokens, repaired calls and seconds of the first table of a group are of one try, on the \
         average. Protocols used: {}.\n",
        protocols.join(", ")
    );
    text.push_str("The first try of five of the small tasks, by each agent on the same server:\n\n");
    append_header(&mut text, "agent");
    for agent in [Agent::Vex, Agent::Codex, Agent::Opencode] {
        let tries: Vec<_> = done
            .iter()
            .filter(|one| one.agent == agent && one.number == 1 && COMPARED.contains(&one.task.as_str()))
            .collect();
        if !tries.is_empty() {
            append_row(&mut text, &agent.to_string(), &tries);
        }
    }
    text
}

/// Appends the tables of a group, if a task of it was tried.
fn append_group(text: &mut String, group: Group, tasks: &[&Task], vex: &[&Attempt]) {
    let tries_of = |is_in: &dyn Fn(&Task) -> bool| -> Vec<&Attempt> {
        let names: BTreeSet<_> = tasks
            .iter()
            .filter(|task| is_in(task))
            .map(|task| task.name.as_str())
            .collect();
        let is_of_them = |one: &&&Attempt| names.contains(one.task.as_str());
        vex.iter().filter(is_of_them).copied().collect()
    };
    let tries = tries_of(&|_| true);
    if tries.is_empty() {
        return;
    }
    text.push_str(match group {
        Group::Small => "### Small tasks\n\n",
        Group::Work => "### Tasks of the shape of real work\n\n",
    });
    append_header(text, "task");
    for task in tasks {
        let tries = tries_of(&|other| other.name == task.name);
        if !tries.is_empty() {
            append_row(text, &task.name, &tries);
        }
    }
    for language in Language::ALL {
        let tries = tries_of(&|task| task.language == Some(language));
        if !tries.is_empty() {
            append_row(text, &format!("**{language}**"), &tries);
        }
    }
    append_row(text, "**all**", &tries);
    append_cost(text, &tries);
}

/// Appends the baseline of the tasks of real work, and the first tries of vex at the same tasks.
fn append_baseline(text: &mut String, baseline: &[&Attempt], vex: &[&Attempt]) {
    let is_of_baseline = |one: &&&Attempt| baseline.iter().any(|other| other.task == one.task);
    let first = vex.iter().filter(is_of_baseline).filter(|one| one.number == 1);
    let first: Vec<_> = first.copied().collect();
    text.push_str("The baseline of the tasks of the shape of real work, one try of each");
    text.push_str(if first.is_empty() {
        ":\n\n"
    } else {
        ", and the first try of vex:\n\n"
    });
    append_header(text, "agent");
    append_row(text, &Agent::VexText.to_string(), baseline);
    if !first.is_empty() {
        append_row(text, &Agent::Vex.to_string(), &first);
    }
    text.push('\n');
}

fn append_header(text: &mut String, first: &str) {
    let _ = writeln!(
        text,
        "| {first} | solved | claimed, not solved | exit 0 while its check failed | turns | tokens in / out | \
         repaired calls | seconds |"
    );
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
}

fn append_row(text: &mut String, name: &str, tries: &[&Attempt]) {
    let count = |value: fn(&Attempt) -> bool| tries.iter().filter(|one| value(one)).count();
    let mean = |value: fn(&Attempt) -> f64| {
        tries.iter().map(|one| value(one)).sum::<f64>() / tries.len().max(1) as f64
    };
    // Results of older versions do not contain it.
    let false_claims = if tries.iter().any(|one| one.verified.is_some()) {
        count(Attempt::is_false_claim).to_string()
    } else {
        "unknown".to_owned()
    };
    let _ = writeln!(
        text,
        "| {name} | {} of {} | {} | {false_claims} | {:.1} | {:.0} / {:.0} | {:.1} | {:.0} |",
        count(Attempt::is_success),
        tries.len(),
        count(|one| one.claimed && !one.solved),
        mean(|one| one.turns as f64),
        mean(|one| one.input_tokens as f64),
        mean(|one| one.output_tokens as f64),
        mean(|one| one.repaired as f64),
        mean(|one| one.seconds),
    );
}

/// Appends what the tries cost in all, and how much of that was in vain.
fn append_cost(text: &mut String, tries: &[&Attempt]) {
    text.push_str("\n| cost in all | tries | turns | tokens in / out | seconds |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    let (successes, failures): (Vec<&Attempt>, Vec<&Attempt>) =
        tries.iter().copied().partition(|one| one.is_success());
    for (name, tries) in [
        ("solved", &successes[..]),
        ("not solved", &failures[..]),
        ("**all**", tries),
    ] {
        let sum = |value: fn(&Attempt) -> u64| tries.iter().map(|one| value(one)).sum::<u64>();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} / {} | {:.0} |",
            tries.len(),
            sum(|one| one.turns),
            sum(|one| one.input_tokens),
            sum(|one| one.output_tokens),
            tries.iter().map(|one| one.seconds).sum::<f64>(),
        );
    }
    text.push('\n');
}

/// Puts the tables into the page.
pub fn write(table: &str) -> TaskResult {
    let path = repo::root().join(PAGE);
    repo::put_between(&path, MARKS, &format!("{}\n\n{table}", repo::machine()?))
}

#[cfg(test)]
mod tests {
    use super::super::tasks;
    use super::*;

    /// A line of the results before `verified` was in them, for another task.
    fn attempt(task: &str, solved: bool, verified: Option<bool>) -> Attempt {
        let old = r#"{"agent": "vex", "task": "", "number": 1, "protocol": "chat", "solved": false, "claimed": true,
            "exit_code": 0, "turns": 2, "input_tokens": 100, "output_tokens": 10, "repaired": 0, "seconds": 5.0}"#;
        Attempt {
            task: task.to_owned(),
            solved,
            verified,
            ..serde_json::from_str(old).unwrap()
        }
    }

    #[test]
    fn groups_have_their_own_tables() {
        let all = tasks::load(None, &[]).unwrap();
        let done = [
            attempt("fix-sign", true, None),
            attempt("fix-nil-map", true, Some(true)),
            attempt("fix-nil-map", false, Some(true)),
            attempt("fix-ring-order", false, Some(false)),
        ];
        let text = tables(&done, &all);
        for line in [
            "| fix-sign | 1 of 1 | 0 | unknown | 2.0 | 100 / 10 | 0.0 | 5 |",
            "| fix-nil-map | 1 of 2 | 1 | 0 | 2.0 | 100 / 10 | 0.0 | 5 |",
            "| **Rust** | 0 of 1 | 1 | 1 | 2.0 | 100 / 10 | 0.0 | 5 |",
            "| **Go** | 1 of 2 | 1 | 0 | 2.0 | 100 / 10 | 0.0 | 5 |",
            "| **all** | 1 of 3 | 2 | 1 | 2.0 | 100 / 10 | 0.0 | 5 |",
            "| not solved | 2 | 4 | 200 / 20 | 10 |",
            "| **all** | 3 | 6 | 300 / 30 | 15 |",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in:\n{text}"
            );
        }
        let baseline = Attempt {
            agent: Agent::VexText,
            ..attempt("fix-nil-map", false, Some(true))
        };
        let text = tables(std::slice::from_ref(&baseline), &all);
        assert!(
            text.contains("one try of each:\n") && !text.contains("0 of 0"),
            "{text}"
        );
        let small = tables(&done[..1], &all);
        assert!(
            !small.contains("real work") && !small.contains("**Rust**"),
            "{small}"
        );
    }
}
