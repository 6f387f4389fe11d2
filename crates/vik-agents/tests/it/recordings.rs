//! Replays recorded output of the real agents.

use serde_json::{Value, json};
use vik_agents::{Exit, PreviousTotal, driver};
use vik_core::outcome::Usage;
use vik_core::workflow::Runtime;

use crate::recording::{Recording, Replay, Show, find, plain_recordings, recordings};
use crate::{adapter, profile};

#[test]
fn recordings_give_their_results() {
    for recording in recordings() {
        let replay = recording.replay();
        if let Some(expected) = &recording.expected {
            let outcome = replay.outcome();
            let is_expected = outcome == *expected || outcome.split(' ').next() == Some(expected);
            assert!(is_expected, "{}: {outcome}, not {expected}", recording.name);
        }
        recording.check_result(&replay);
    }
}

/// The raw output of an attempt that has ended is kept without them.
#[test]
fn recordings_without_partial_lines_give_the_same_events() {
    let mut with_partial_lines = std::collections::BTreeSet::new();
    for mut recording in recordings() {
        let adapter = match recording.show {
            Show::Counts => adapter(&profile(recording.runtime())),
            Show::Requests => crate::interactive(recording.runtime()),
        };
        let (partial, kept): (Vec<&str>, Vec<&str>) = recording
            .stdout
            .split_inclusive('\n')
            .partition(|line| adapter.is_partial(line.trim_end()));
        if partial.is_empty() {
            continue;
        }
        with_partial_lines.insert(recording.agent().to_owned());
        let kept = kept.concat();
        let before = recording.replay();
        recording.stdout = kept;
        let after = recording.replay();
        assert_eq!(before.events, after.events, "{}", recording.name);
        assert_eq!(before.outcome(), after.outcome(), "{}", recording.name);
    }
    let agents: Vec<_> = with_partial_lines.into_iter().collect();
    assert_eq!(agents, ["claude", "codex"]);
}

#[test]
fn conclusions_satisfy_the_common_invariants() {
    for recording in plain_recordings() {
        let Replay {
            conclusion, events, ..
        } = recording.replay();
        let name = &recording.name;
        assert_eq!(conclusion.ok, conclusion.failure_class.is_none(), "{name}");
        assert_eq!(conclusion.ok, conclusion.reason.is_none(), "{name}");
        if !conclusion.ok {
            // The result of Claude Code may be lower than the usage that a failed request reported.
            continue;
        }
        assert!(recording.exit.is_zero(), "{name}: green with {}", recording.exit);
        let mut ends = events.iter().filter(|event| event["kind"] == "completed");
        assert!(ends.next_back().is_none_or(|last| last["ok"] == true), "{name}");
        let usages = events.iter().filter(|event| event["kind"] == "token_usage");
        let totals = usages.map(|event| event["usage"]["input_tokens"].as_u64().unwrap());
        assert!(totals.is_sorted(), "{name}: a running total never shrinks");
    }
}

/// Reads the usage again in another way.
#[test]
fn usage_is_that_of_the_last_report() {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let mut checked = std::collections::BTreeMap::new();
    for recording in plain_recordings() {
        let name = &recording.name;
        let seen = recording.replay().conclusion;
        let usage = seen.usage;
        let lines = recording.lines();
        let last = |kind: &str| lines.iter().rev().find(|line| line["type"] == kind);
        let id = match recording.agent() {
            "codex" => last("thread.started").map(|line| &line["thread_id"]),
            "opencode" => lines.first().map(|line| &line["sessionID"]),
            "gemini" => last("result").map(|_| &lines[0]["session_id"]),
            "claude" => last("result").map(|line| &line["session_id"]),
            _ => last("result").map(|line| &line["sessionId"]),
        };
        if let Some(id) = id {
            assert_eq!(seen.provider_session_id.as_deref(), id.as_str(), "{name}");
        }
        let figures = |input, cached, output| {
            let figures = (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens);
            assert_eq!(figures, (input, cached, output), "{name}");
        };
        match (recording.agent(), last("turn.completed").or(last("result"))) {
            ("codex", turn) => {
                assert_eq!(seen.cost_usd, None, "{name}");
                let Some(turn) = turn else { continue };
                let of = |key: &str| number(&turn["usage"][key]);
                figures(of("input_tokens"), of("cached_input_tokens"), of("output_tokens"));
                let mut items = lines.iter().rev().map(|line| &line["item"]);
                let message = items.find(|item| item["type"] == "agent_message");
                let message = message.and_then(|item| item["text"].as_str());
                assert_eq!(seen.last_message.as_deref(), message, "{name}");
            }
            ("claude", Some(result)) => {
                assert_eq!(seen.cost_usd, result["total_cost_usd"].as_f64(), "{name}");
                if seen.ok {
                    assert_eq!(seen.last_message.as_deref(), result["result"].as_str(), "{name}");
                }
                let models = result["modelUsage"].as_object().unwrap();
                let sum = |key: &str| models.values().map(|model| number(&model[key])).sum::<u64>();
                let (read, written) = (sum("cacheReadInputTokens"), sum("cacheCreationInputTokens"));
                if !models.is_empty() {
                    figures(sum("inputTokens") + read + written, read, sum("outputTokens"));
                    assert_eq!(usage.cache_write_input_tokens, written, "{name}");
                }
                let structured = seen.result.map_or(Value::Null, |raw| json!(raw));
                assert_eq!(structured, result["structured_output"], "{name}");
            }
            ("gemini", Some(result)) => {
                let of = |key: &str| number(&result["stats"][key]);
                figures(of("input_tokens"), of("cached"), of("output_tokens"));
            }
            ("opencode", _) if !lines.is_empty() => {
                let steps = lines.iter().filter(|line| line["type"] == "step_finish");
                let steps: Vec<&Value> = steps.map(|line| &line["part"]).collect();
                // The totals of each step: input, output, reasoning, cache.
                let total: u64 = steps.iter().map(|step| number(&step["tokens"]["total"])).sum();
                assert_eq!(usage.total(), total, "{name}");
                let cost: f64 = steps.iter().filter_map(|step| step["cost"].as_f64()).sum();
                assert!((seen.cost_usd.unwrap_or(0.0) - cost).abs() < 1e-9, "{name}");
            }
            _ => continue,
        }
        *checked.entry(recording.agent().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(checked.len(), 4, "{checked:?}");
    assert!(checked.values().all(|count| *count > 10), "{checked:?}");
}

/// Returns the usage and cost of a recording that continues a conversation.
fn resumed(recording: &Recording, previous_total: PreviousTotal) -> (Usage, Option<f64>) {
    let runtime = recording.runtime();
    let adapter = driver(runtime).adapter(&profile(runtime), Some(previous_total));
    let conclusion = recording.replay_with(adapter).conclusion;
    (conclusion.usage, conclusion.cost_usd)
}

#[test]
fn claude_code_resume_is_charged_only_the_added_usage() {
    // The previous process exited by itself and saved its usage, which is included in this one.
    let first = find("claude/2.1.330/session-id").replay().conclusion;
    let saved = find("claude/2.1.330/resume-same");
    let total = saved.replay().conclusion;
    let previous = PreviousTotal {
        usage: first.usage,
        cost_usd: first.cost_usd.unwrap(),
    };
    assert!(total.usage.input_tokens > previous.usage.input_tokens);
    let (usage, cost) = resumed(&saved, previous);
    assert_eq!(usage, total.usage.since(previous.usage));
    let cost = cost.unwrap();
    let added = total.cost_usd.unwrap() - previous.cost_usd;
    assert!(cost > 0.0 && (cost - added).abs() < 1e-9, "{cost}");
    // The previous process was killed, so this usage is its own, as in all earlier versions.
    for name in ["claude/2.1.330/resume-killed", "claude/2.1.197/resume-fork"] {
        let recording = find(name);
        let own = recording.replay().conclusion;
        assert_eq!(resumed(&recording, previous), (own.usage, own.cost_usd), "{name}");
    }
}

/// Version 2.1.330 exits with 0 when it is interrupted, also during a tool call.
#[test]
fn claude_code_interrupt_is_never_a_success() {
    for name in [
        "sig-int-tool",
        "sig-int-stall",
        "sig-term-tool",
        "sig-term-stall",
        "sig-hup-tool",
    ] {
        let recording = find(&format!("claude/2.1.330/{name}"));
        assert_eq!(name.contains("sig-int"), recording.exit.is_zero(), "{name}");
        assert!(!recording.replay().conclusion.ok, "{name}");
        // Neither is a session that ended before or during the writing of its result.
        let text = &recording.stdout;
        let result = recording.lines().len().saturating_sub(1);
        let before_result: String = text.split_inclusive('\n').take(result).collect();
        for stdout in [before_result, text[..text.len() - 2].to_owned()] {
            let mut cut = recording.clone();
            (cut.stdout, cut.stderr, cut.exit) = (stdout, String::new(), Exit::Code(0));
            assert!(!cut.replay().conclusion.ok, "{name}");
        }
    }
}

#[test]
fn codex_resume_is_charged_only_the_added_usage() {
    let third = find("codex/0.169.0/resume-3-other-cwd");
    let before = find("codex/0.169.0/resume-1").replay().conclusion.usage;
    let total = third.replay().conclusion.usage;
    assert!(total.input_tokens > before.input_tokens);
    let resumed_after = |usage| resumed(&third, PreviousTotal { usage, cost_usd: 0.0 }).0;
    assert_eq!(resumed_after(before), total.since(before));
    // A total below the previous usage of the thread belongs to another thread.
    let larger = Usage {
        input_tokens: total.input_tokens + 1,
        ..Usage::default()
    };
    assert_eq!(resumed_after(larger), total);
}

#[test]
fn command_runtime_gives_the_same_conclusions() {
    for recording in plain_recordings() {
        if recording.runtime() == Runtime::Command || recording.lines().is_empty() {
            continue;
        }
        let own = recording.replay().conclusion;
        let through = recording
            .replay_with(adapter(&profile(Runtime::Command)))
            .conclusion;
        assert_eq!(
            (own.ok, own.failure_class, own.usage, own.provider_session_id),
            (
                through.ok,
                through.failure_class,
                through.usage,
                through.provider_session_id
            ),
            "{}",
            recording.name
        );
    }
}

#[test]
fn recorded_lines_give_an_event_or_are_known_to_be_silent() {
    const SILENT: &[&str] = &[
        "codex turn.started",
        "claude stream_event",
        "claude system",
        "gemini message",
        "opencode step_start",
        "copilot assistant.message",
        "copilot assistant.message_start",
        "copilot assistant.message_delta",
        "copilot assistant.tool_call_delta",
        "copilot assistant.turn_start",
        "copilot assistant.turn_end",
        "copilot assistant.idle",
        "copilot model.call_start",
        "copilot model.call_finished",
        "copilot session.background_tasks_changed",
        "copilot tool.execution_partial_result",
        "copilot tool.shell_output",
    ];
    for recording in plain_recordings() {
        for kind in recording.replay().silent {
            let key = format!("{} {kind}", recording.agent());
            assert!(
                SILENT.contains(&key.as_str()),
                "{}: silent on {key}",
                recording.name
            );
        }
    }
}
