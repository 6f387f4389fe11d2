//! Runs every adapter on recorded output of the real CLIs.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vik_agents::{Adapter, Conclusion, Exit, PreviousTotal, driver};
use vik_core::event::Event;
use vik_core::outcome::Usage;
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};

struct Case {
    name: String,
    stdout: Vec<u8>,
    stderr: String,
    exit: Exit,
}

/// The result of one replay.
struct Replay {
    conclusion: Conclusion,
    /// The number of events of each kind.
    kinds: BTreeMap<String, usize>,
    events: Vec<Value>,
    open_before_end: usize,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for cli in folders(&fixtures()) {
        for version in folders(&cli) {
            for file in std::fs::read_dir(&version).unwrap() {
                let meta = file.unwrap().path();
                let Some(stem) = meta.to_str().unwrap().strip_suffix(".meta.json") else {
                    continue;
                };
                let code: Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
                let code = i32::try_from(code["exit_code"].as_i64().unwrap()).unwrap();
                cases.push(Case {
                    name: stem
                        .strip_prefix(fixtures().to_str().unwrap())
                        .unwrap()
                        .trim_start_matches('/')
                        .to_owned(),
                    stdout: std::fs::read(format!("{stem}.stdout.jsonl")).unwrap_or_default(),
                    stderr: String::from_utf8_lossy(
                        &std::fs::read(format!("{stem}.stderr")).unwrap_or_default(),
                    )
                    .into_owned(),
                    exit: if code < 0 {
                        Exit::Signal(-code)
                    } else {
                        Exit::Code(code)
                    },
                });
            }
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() > 200, "only {} recordings found", cases.len());
    cases
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

fn profile(case: &str) -> AgentProfile {
    let runtime = match case.split('/').next() {
        Some("codex") => Runtime::Codex,
        Some("claude") => Runtime::ClaudeCode,
        _ => Runtime::Command,
    };
    AgentProfile {
        model: Some("m".to_owned()),
        output: OutputFormat::Jsonl,
        ..AgentProfile::new(runtime)
    }
}

fn adapter(profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Box<dyn Adapter> {
    driver(profile.runtime).adapter(profile, previous_total)
}

fn run(case: &Case, mut adapter: Box<dyn Adapter>) -> Replay {
    let mut events: Vec<Value> = Vec::new();
    for line in case.stdout.split(|byte| *byte == b'\n') {
        adapter.line(line, &mut |event: Event<'_>| {
            events.push(serde_json::to_value(&event).unwrap());
        });
    }
    let open_before_end = adapter.open_tools();
    let tail = &case.stderr[case
        .stderr
        .ceil_char_boundary(case.stderr.len().saturating_sub(8192))..];
    let conclusion = adapter.conclude(case.exit, tail);
    let mut kinds = BTreeMap::new();
    for event in &events {
        *kinds
            .entry(event["kind"].as_str().unwrap().to_owned())
            .or_insert(0) += 1;
    }
    Replay {
        conclusion,
        kinds,
        events,
        open_before_end,
    }
}

fn replay(case: &Case) -> Replay {
    run(case, adapter(&profile(&case.name), None))
}

fn lines(case: &Case) -> Vec<Value> {
    let lines = case.stdout.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

#[test]
fn recordings_come_out_as_expected() {
    let expected = std::fs::read(fixtures().join("expected.json")).unwrap();
    let expected: BTreeMap<String, Value> = serde_json::from_slice(&expected).unwrap();
    let mut wrong = String::new();
    let mut held = 0;
    for case in cases() {
        let Some(expected) = expected.get(&case.name) else {
            continue;
        };
        held += 1;
        let seen = replay(&case).conclusion;
        let outcome = if seen.ok { "succeeded" } else { "failed" };
        if expected["outcome"] != outcome {
            writeln!(
                wrong,
                "{}: {outcome}, not {}: {:?}",
                case.name, expected["outcome"], seen.reason
            )
            .unwrap();
        }
        let class = seen.failure_class.map(|class| class.as_str());
        if let Some(expected) = expected["failure_class"].as_str()
            && class != Some(expected)
        {
            writeln!(
                wrong,
                "{}: {class:?}, not {expected}: {:?}",
                case.name, seen.reason
            )
            .unwrap();
        }
    }
    assert_eq!(held, expected.len(), "not every expectation has its recording");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn conclusions_satisfy_the_common_invariants() {
    for case in cases() {
        let seen = replay(&case);
        let conclusion = &seen.conclusion;
        let name = &case.name;
        assert_eq!(conclusion.ok, conclusion.failure_class.is_none(), "{name}");
        assert_eq!(conclusion.ok, conclusion.reason.is_none(), "{name}");
        assert!(
            !conclusion.ok || case.exit.is_zero(),
            "{name}: green with {}",
            case.exit
        );
        if let Some(Value::Object(last)) = seen
            .events
            .iter()
            .rev()
            .find(|event| event["kind"] == "completed")
        {
            // A successful conclusion needs a successful last event.
            assert!(!conclusion.ok || last["ok"] == true, "{name}");
        }
        let totals: Vec<u64> = seen
            .events
            .iter()
            .filter(|event| event["kind"] == "token_usage")
            .map(|event| event["usage"]["input_tokens"].as_u64().unwrap())
            .collect();
        // The result of Claude Code may be lower than the usage that a failed request reported.
        assert!(
            !conclusion.ok || totals.is_sorted(),
            "{name}: a running total never shrinks: {totals:?}"
        );
    }
}

/// Computes the usage again in another way.
#[test]
fn usage_is_that_of_the_last_report() {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (mut codex, mut claude, mut gemini, mut opencode) = (0, 0, 0, 0);
    for case in cases() {
        let name = &case.name;
        let seen = replay(&case).conclusion;
        let lines = lines(&case);
        let of = |kind: &str| lines.iter().rev().find(|line| line["type"] == kind);
        if name.starts_with("codex/") {
            if let Some(thread) = of("thread.started") {
                assert_eq!(
                    seen.provider_session_id.as_deref(),
                    thread["thread_id"].as_str(),
                    "{name}"
                );
            }
            if let Some(turn) = of("turn.completed") {
                codex += 1;
                assert_eq!(
                    seen.usage.input_tokens,
                    number(&turn["usage"]["input_tokens"]),
                    "{name}"
                );
                assert_eq!(
                    seen.usage.cached_input_tokens,
                    number(&turn["usage"]["cached_input_tokens"]),
                    "{name}"
                );
                assert_eq!(
                    seen.usage.output_tokens,
                    number(&turn["usage"]["output_tokens"]),
                    "{name}"
                );
                let last_message = lines
                    .iter()
                    .rev()
                    .find(|line| line["item"]["type"] == "agent_message");
                assert_eq!(
                    seen.last_message.as_deref(),
                    last_message.and_then(|l| l["item"]["text"].as_str()),
                    "{name}"
                );
            }
            assert_eq!(seen.cost_usd, None, "{name}");
        } else if name.starts_with("claude/") {
            let Some(result) = of("result") else { continue };
            claude += 1;
            assert_eq!(
                seen.provider_session_id.as_deref(),
                result["session_id"].as_str(),
                "{name}"
            );
            assert_eq!(seen.cost_usd, result["total_cost_usd"].as_f64(), "{name}");
            if seen.ok {
                assert_eq!(seen.last_message.as_deref(), result["result"].as_str(), "{name}");
            }
            let models = result["modelUsage"].as_object().unwrap();
            let sum = |key: &str| models.values().map(|model| number(&model[key])).sum::<u64>();
            let (read, written) = (sum("cacheReadInputTokens"), sum("cacheCreationInputTokens"));
            if !models.is_empty() {
                assert_eq!(
                    seen.usage.input_tokens,
                    sum("inputTokens") + read + written,
                    "{name}"
                );
                assert_eq!(seen.usage.output_tokens, sum("outputTokens"), "{name}");
                assert_eq!(seen.usage.cached_input_tokens, read, "{name}");
                assert_eq!(seen.usage.cache_write_input_tokens, written, "{name}");
            }
            let structured = result.get("structured_output").map(ToString::to_string);
            assert_eq!(seen.result.map(|raw| raw.get().to_owned()), structured, "{name}");
        } else if name.starts_with("gemini/") {
            let Some(result) = of("result") else { continue };
            gemini += 1;
            assert_eq!(
                seen.usage.input_tokens,
                number(&result["stats"]["input_tokens"]),
                "{name}"
            );
            assert_eq!(
                seen.usage.cached_input_tokens,
                number(&result["stats"]["cached"]),
                "{name}"
            );
            assert_eq!(
                seen.usage.output_tokens,
                number(&result["stats"]["output_tokens"]),
                "{name}"
            );
            assert_eq!(
                seen.provider_session_id.as_deref(),
                lines[0]["session_id"].as_str(),
                "{name}"
            );
        } else if name.starts_with("opencode/") && !lines.is_empty() {
            opencode += 1;
            let steps = || {
                lines
                    .iter()
                    .filter(|line| line["type"] == "step_finish")
                    .map(|line| &line["part"])
            };
            // The totals of each step: input, output, reasoning, cache.
            let total: u64 = steps().map(|step| number(&step["tokens"]["total"])).sum();
            assert_eq!(seen.usage.total(), total, "{name}");
            let cost: f64 = steps().filter_map(|step| step["cost"].as_f64()).sum();
            assert!((seen.cost_usd.unwrap_or(0.0) - cost).abs() < 1e-9, "{name}");
            assert_eq!(
                seen.provider_session_id.as_deref(),
                lines[0]["sessionID"].as_str(),
                "{name}"
            );
        } else if let Some(result) = of("result") {
            assert_eq!(
                seen.provider_session_id.as_deref(),
                result["sessionId"].as_str(),
                "{name}"
            );
        }
    }
    let counted = [codex, claude, gemini, opencode];
    assert!(
        counted.iter().all(|count| *count > 10),
        "too few figures were held: {counted:?}"
    );
}

fn total_of(usage: Usage) -> PreviousTotal {
    PreviousTotal { usage, cost_usd: 0.0 }
}

fn find(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap()
}

#[test]
fn claude_code_resume_is_charged_only_the_added_usage() {
    // The previous process exited by itself and saved its usage, which is included in this one.
    let first = replay(&find("claude/2.1.330/session-id")).conclusion;
    let saved = find("claude/2.1.330/resume-same");
    let total = replay(&saved).conclusion;
    let previous = PreviousTotal {
        usage: first.usage,
        cost_usd: first.cost_usd.unwrap(),
    };
    assert!(total.usage.input_tokens > previous.usage.input_tokens);
    let added = run(&saved, adapter(&profile("claude"), Some(previous))).conclusion;
    assert_eq!(added.usage, total.usage.since(previous.usage));
    let cost = added.cost_usd.unwrap();
    assert!(
        cost > 0.0 && (cost - (total.cost_usd.unwrap() - previous.cost_usd)).abs() < 1e-9,
        "{cost}"
    );
    // The previous process was killed, so this usage is its own, as in all earlier versions.
    for name in ["claude/2.1.330/resume-killed", "claude/2.1.197/resume-fork"] {
        let case = find(name);
        let own = replay(&case).conclusion;
        let seen = run(&case, adapter(&profile("claude"), Some(previous))).conclusion;
        assert_eq!((seen.usage, seen.cost_usd), (own.usage, own.cost_usd), "{name}");
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
        let case = find(&format!("claude/2.1.330/{name}"));
        assert_eq!(name.contains("sig-int"), case.exit.is_zero(), "{name}");
        assert!(!replay(&case).conclusion.ok, "{name}");
        // Neither is a session that ended before or during the writing of its result.
        let end = case.stdout.len();
        let result = lines(&case).len().saturating_sub(1);
        let before_result: Vec<u8> = case
            .stdout
            .split_inclusive(|byte| *byte == b'\n')
            .take(result)
            .flatten()
            .copied()
            .collect();
        for stdout in [before_result, case.stdout[..end - 2].to_vec()] {
            let cut = Case {
                name: case.name.clone(),
                stdout,
                stderr: String::new(),
                exit: Exit::Code(0),
            };
            assert!(!replay(&cut).conclusion.ok, "{name}");
        }
    }
}

#[test]
fn codex_resume_is_charged_only_the_added_usage() {
    let case = |name: &str| find(&format!("codex/0.169.0/{name}"));
    let (first, third) = (case("resume-1"), case("resume-3-other-cwd"));
    let before = replay(&first).conclusion.usage;
    let total = replay(&third).conclusion.usage;
    assert!(total.input_tokens > before.input_tokens);
    let added = run(&third, adapter(&profile("codex"), Some(total_of(before))))
        .conclusion
        .usage;
    assert_eq!(added, total.since(before));
    // A total below the previous usage of the thread belongs to another thread.
    let larger = Usage {
        input_tokens: total.input_tokens + 1,
        ..Usage::default()
    };
    assert_eq!(
        run(&third, adapter(&profile("codex"), Some(total_of(larger))))
            .conclusion
            .usage,
        total
    );
}

#[test]
fn command_runtime_gives_the_same_conclusions() {
    for case in cases()
        .iter()
        .filter(|case| case.name.starts_with("codex/") || case.name.starts_with("claude/"))
    {
        if case.stdout.iter().all(u8::is_ascii_whitespace) || lines(case).is_empty() {
            continue;
        }
        let own = replay(case).conclusion;
        let through = run(case, adapter(&profile("command"), None)).conclusion;
        assert_eq!(
            (own.ok, own.failure_class, own.usage),
            (through.ok, through.failure_class, through.usage),
            "{}",
            case.name
        );
        assert_eq!(
            own.provider_session_id, through.provider_session_id,
            "{}",
            case.name
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
    for case in cases() {
        let cli = case.name.split('/').next().unwrap();
        let mut adapter = adapter(&profile(&case.name), None);
        for line in case
            .stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let mut events = 0;
            adapter.line(line, &mut |_| events += 1);
            let kind =
                serde_json::from_slice::<Value>(line).map_or(String::new(), |line| line["type"].to_string());
            let key = format!("{cli} {}", kind.trim_matches('"'));
            assert!(
                events > 0 || SILENT.contains(&key.as_str()),
                "{}: silent on {key}",
                case.name
            );
        }
    }
}

/// Writes one line per recording, for review.
#[test]
fn recordings_table_is_written() {
    let mut table = String::new();
    for case in cases() {
        let seen = replay(&case);
        let c = &seen.conclusion;
        let outcome = match (c.ok, c.over_budget) {
            (true, _) => "succeeded".to_owned(),
            (false, true) => "over_budget".to_owned(),
            (false, false) => format!("failed/{}", c.failure_class.unwrap()),
        };
        let u = c.usage;
        let cost = c.cost_usd.map_or("-".to_owned(), |cost| format!("${cost:.9}"));
        writeln!(
            table,
            "{} [{}] {outcome} in={} cached={} written={} out={} {cost} open={} id={}",
            case.name,
            match case.exit {
                Exit::Code(code) => code.to_string(),
                Exit::Signal(signal) => format!("sig {signal}"),
            },
            u.input_tokens,
            u.cached_input_tokens,
            u.cache_write_input_tokens,
            u.output_tokens,
            seen.open_before_end,
            c.provider_session_id
                .as_deref()
                .map_or("-", |id| &id[..id.len().min(8)]),
        )
        .unwrap();
        let kinds: Vec<String> = seen
            .kinds
            .iter()
            .map(|(kind, count)| format!("{kind}:{count}"))
            .collect();
        writeln!(table, "    {}", kinds.join(" ")).unwrap();
        let short = |text: &str| -> String { text.replace('\n', "⏎").chars().take(150).collect() };
        if let Some(text) = &c.last_message {
            writeln!(table, "    said: {}", short(text)).unwrap();
        }
        if let Some(text) = &c.reason {
            writeln!(table, "    why:  {}", short(text)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
