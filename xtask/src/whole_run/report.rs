//! The report: the verbatim output, without the paths of this machine.

use std::fmt::Write;

use super::RunRecord;

/// The number of lines shown of each end of the session log.
const LOG_LINES: usize = 6;

/// The number of characters shown of a line of the session log.
const LOG_WIDTH: usize = 260;

pub fn markdown(story: &RunRecord, private: &[(String, &'static str)]) -> String {
    let mut page = String::from(
        "# A whole run\n\n<!-- Made by `cargo xtask whole-run --report docs/reports/whole-run.md`. -->\n\n\
        This page shows a complete run of Vik on this repository. The real Codex plans and the real Claude\n\
        Code implements; the model behind both is the scripted server of `vik-testkit`. The run takes three\n\
        issues of the embedded tracker through two stages each, two issues at a time. Everything that the\n\
        agents did is real: clones of this repository, edits, commands, the project's own tests, commits,\n\
        and a push. Paths of the machine are shown as `…`.\n\n",
    );
    for version in &story.versions {
        let _ = writeln!(page, "- {version}");
    }
    let _ = writeln!(
        page,
        "- {} answers of the model; each request contained the tool output that its answer expected",
        story.requests
    );
    section(
        &mut page,
        "The run",
        &format!(
            "$ vik run --once\n{}{}$ echo $?\n0",
            story.first.err, story.first.out
        ),
    );
    section(
        &mut page,
        "Run again",
        &format!("$ vik run --once\n{}{}", story.second.err, story.second.out),
    );
    page.push_str("\nNo process of either run was left over.\n");
    section(
        &mut page,
        "The issues afterwards",
        &format!("$ vik issue list\n{}", story.issues),
    );
    let branches: Vec<_> = story
        .branches
        .iter()
        .map(|(branch, log)| format!("$ git log --stat main..{branch}\n{}", spaced(log)))
        .collect();
    section(&mut page, "What was pushed", &branches.join("\n\n"));
    section(
        &mut page,
        "One session log: issue 1, implement",
        &head_and_tail(&story.log),
    );
    page.push_str("\n## The workflow\n\n");
    let _ = writeln!(page, "```yaml\n{}\n```", story.workflow.trim_end());
    for (path, instead) in private {
        page = page.replace(path, instead);
    }
    page
}

fn section(page: &mut String, title: &str, text: &str) {
    let _ = write!(page, "\n## {title}\n\n```text\n{}\n```\n", text.trim_end());
}

/// Removes git's blank line between a subject and its files.
fn spaced(log: &str) -> String {
    let lines: Vec<_> = log
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n")
}

fn head_and_tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().map(|line| cut(line, LOG_WIDTH)).collect();
    if lines.len() <= 2 * LOG_LINES {
        return lines.join("\n");
    }
    let (head, tail) = (&lines[..LOG_LINES], &lines[lines.len() - LOG_LINES..]);
    let between = lines.len() - 2 * LOG_LINES;
    format!("{}\n… {between} lines …\n{}", head.join("\n"), tail.join("\n"))
}

/// Returns the start of a long line, and its end, which has the figures.
fn cut(line: &str, width: usize) -> String {
    let chars: Vec<char> = line.chars().collect();
    if chars.len() <= 2 * width {
        return line.to_owned();
    }
    let head: String = chars[..width].iter().collect();
    let tail: String = chars[chars.len() - width..].iter().collect();
    format!("{head} … {tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_shortens_a_long_log() {
        let log: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let shown = head_and_tail(&log);
        assert!(shown.starts_with("line 1\n") && shown.ends_with("line 20"));
        assert!(shown.contains("line 6\n… 8 lines …\nline 15\n"), "{shown}");
        assert_eq!(head_and_tail("a\nb\n"), "a\nb");
        assert_eq!(cut(&"é".repeat(1000), 2), "éé … éé");
    }
}
