//! Agents whose input stays open for messages of people: without a message, they end as agents that
//! get only a prompt do.

use serde_json::{Value, json};
use vik_core::ids::MessageId;
use vik_core::message::Message;
use vik_testkit::RealAgent;

use crate::agent_run::{AgentRun, PROMPT};
use crate::{setup, work_script};

fn message(number: u128, text: &str, interrupt: bool) -> Message {
    Message {
        id: MessageId(uuid::Uuid::from_u128(number)),
        text: text.to_owned(),
        by: "a person".to_owned(),
        at: "2026-11-26T12:00:00Z".parse().unwrap(),
        interrupt,
    }
}

/// What a daemon learns of a run.
fn result(run: &AgentRun) -> Value {
    let conclusion = &run.conclusion;
    json!({
        "ok": conclusion.ok,
        "class": conclusion.failure_class.map(|class| class.to_string()),
        "message": conclusion.last_message,
        "usage": conclusion.usage,
        "cost": conclusion.cost_usd,
        "has_session": conclusion.provider_session_id.as_ref().map(String::len),
        "over_budget": conclusion.over_budget,
        "fatal": run.events.iter().filter(|event| event["fatal"] == true).count(),
        "completed": run.kinds().iter().filter(|kind| *kind == "completed").count(),
        "unknown": run.kinds().iter().filter(|kind| *kind == "unknown").count(),
    })
}

/// Checks that a script has the same result with an open input.
fn is_the_same(agent: RealAgent, name: &str, script: &Value) {
    let mut results = Vec::new();
    for is_open in [false, true] {
        let Some(setup) = setup(agent, script.clone()) else {
            return;
        };
        let run = if is_open {
            AgentRun::converse(&setup.env, &setup.profile, None, |_| None)
        } else {
            AgentRun::run(&setup.env, &setup.profile, PROMPT)
        };
        let mut result = result(&run);
        // Whether the figures of an answer that is cut off arrive before the cut is up to the network.
        if name == "drop" {
            for figure in ["usage", "cost"] {
                result[figure] = Value::Null;
            }
        }
        result["requests"] = setup.server.turns().len().into();
        results.push((result, run.conclusion.reason));
    }
    let (closed, open) = (&results[0], &results[1]);
    assert_eq!(closed.0, open.0, "{name}: {:?} and {:?}", closed.1, open.1);
}

fn ends_as_with_a_prompt(agent: RealAgent) {
    let forever = |turn: Value| {
        let mut turn = turn;
        turn["times"] = "forever".into();
        json!([turn])
    };
    for (name, script) in [
        ("work", work_script()),
        ("429", forever(json!({"status": 429, "retry_after": 0.1}))),
        ("401", forever(json!({"status": 401}))),
        ("500", forever(json!({"status": 500}))),
        ("400", forever(json!({"status": 400, "error": "No such thing."}))),
        (
            "404",
            forever(json!({"status": 404, "error": "There is no such model."})),
        ),
        ("drop", forever(json!({"text": "Some text.", "drop": "mid"}))),
        (
            "failing command",
            json!([{"run": "exit 3"}, {"text": "It failed."}]),
        ),
    ] {
        is_the_same(agent, name, &script);
    }
}

#[test]
fn codex_ends_as_with_a_prompt() {
    ends_as_with_a_prompt(RealAgent::Codex);
}

#[test]
fn claude_ends_as_with_a_prompt() {
    ends_as_with_a_prompt(RealAgent::Claude);
}

/// Returns the bodies of the requests to the model, as text.
fn requests(server: &vik_testkit::server::ModelServer) -> Vec<String> {
    server.turns().iter().map(|turn| turn.body.to_string()).collect()
}

fn takes_a_message_in_mid_turn(agent: RealAgent) {
    let script = json!([{"text": "Going.", "run": "sleep 1"}, {"text": "Blue it is."}]);
    let Some(setup) = setup(agent, script) else {
        return;
    };
    let sent = message(1, "Make it blue.", false);
    let run = AgentRun::converse(&setup.env, &setup.profile, None, |event| {
        (event["kind"] == "tool_call").then(|| sent.clone())
    });
    assert!(run.conclusion.ok, "{:?}", run.conclusion);
    assert_eq!(run.taken, [sent.id]);
    let requests = requests(&setup.server);
    assert_eq!(requests.len(), 2, "one turn");
    assert!(!requests[0].contains("Make it blue.") && requests[1].contains("Make it blue."));
    assert_eq!(run.conclusion.usage.input_tokens, 2000);
}

#[test]
fn codex_takes_a_message_in_mid_turn() {
    takes_a_message_in_mid_turn(RealAgent::Codex);
}

#[test]
fn claude_takes_a_message_in_mid_turn() {
    takes_a_message_in_mid_turn(RealAgent::Claude);
}

fn takes_a_message_after_the_last_request(agent: RealAgent) {
    let script = json!([
        {"text": "Done.", "run": "true"},
        {"text": "All done."},
        {"text": "Now it is green.", "run": "true"},
        {"text": "Really done."}
    ]);
    let Some(setup) = setup(agent, script) else {
        return;
    };
    let sent = message(2, "Make it green.", false);
    let run = AgentRun::converse(&setup.env, &setup.profile, None, |event| {
        (event["kind"] == "completed" && event["message"] == "All done.").then(|| sent.clone())
    });
    assert!(run.conclusion.ok, "{:?}", run.conclusion);
    assert_eq!(run.taken, [sent.id]);
    assert_eq!(run.conclusion.last_message.as_deref(), Some("Really done."));
    let requests = requests(&setup.server);
    assert_eq!(requests.len(), 4);
    assert!(!requests[1].contains("Make it green.") && requests[2].contains("Make it green."));
    let usage = run.conclusion.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (4000, 80));
    if agent == RealAgent::Claude {
        let cost = run.conclusion.cost_usd.unwrap();
        assert!((cost - 4.0 * 0.0033).abs() < 1e-6, "{cost}");
    }
}

#[test]
fn codex_takes_a_message_after_the_last_request() {
    takes_a_message_after_the_last_request(RealAgent::Codex);
}

#[test]
fn claude_takes_a_message_after_the_last_request() {
    takes_a_message_after_the_last_request(RealAgent::Claude);
}

fn stops_its_step_for_a_message(agent: RealAgent) {
    let script = json!([
        {"text": "Going.", "run": "echo started > started.txt; sleep 600"},
        {"text": "Stopped it."}
    ]);
    let Some(setup) = setup(agent, script) else {
        return;
    };
    let sent = message(3, "Stop that.", true);
    let run = AgentRun::converse(&setup.env, &setup.profile, None, |event| {
        (event["kind"] == "tool_call").then(|| sent.clone())
    });
    assert!(run.conclusion.ok, "{:?}", run.conclusion);
    assert_eq!(run.taken, [sent.id]);
    assert_eq!(run.conclusion.last_message.as_deref(), Some("Stopped it."));
    assert!(
        !run.events.iter().any(|event| event["fatal"] == true),
        "{:?}",
        run.events
    );
    assert_eq!(run.conclusion.usage.input_tokens, 2000);
    let requests = requests(&setup.server);
    assert!(
        requests.len() == 2 && requests[1].contains("Stop that."),
        "{requests:?}"
    );
    vik_testkit::eventually("its tools are gone", || setup.env.leftovers().is_empty());
}

#[test]
fn codex_stops_its_step_for_a_message() {
    stops_its_step_for_a_message(RealAgent::Codex);
}

#[test]
fn claude_stops_its_step_for_a_message() {
    stops_its_step_for_a_message(RealAgent::Claude);
}

fn resumes_in_the_other_mode(agent: RealAgent) {
    let script = json!([{"text": "One."}, {"text": "Two.", "expect": "One."}]);
    let Some(setup) = setup(agent, script) else {
        return;
    };
    let first = AgentRun::converse(&setup.env, &setup.profile, None, |_| None);
    let id = first.conclusion.provider_session_id.unwrap();
    let second = AgentRun::converse(&setup.env, &setup.profile, Some(&id), |_| None);
    assert!(second.conclusion.ok, "{:?}", second.conclusion);
    assert_eq!(second.conclusion.provider_session_id, Some(id));
    assert_eq!(setup.server.failures(), [""; 0]);
}

#[test]
fn codex_resumes_with_an_open_input() {
    resumes_in_the_other_mode(RealAgent::Codex);
}

#[test]
fn claude_resumes_with_an_open_input() {
    resumes_in_the_other_mode(RealAgent::Claude);
}
