//! Tests of a hub that follows.

use std::sync::Mutex;

use serde_json::json;
use vik_api::{DaemonState, HubView};
use vik_orchestrator::Task;
use vik_proc::TcpPeer;

use super::*;

/// The hub that leads. It passes requests to an API, or fails, and keeps them as the server gets them.
#[derive(Debug)]
struct ScriptedLeader {
    to: Result<ForwardedRequests, ForwardError>,
    seen: Mutex<Vec<String>>,
}

impl ScriptedLeader {
    fn new(to: Result<ForwardedRequests, ForwardError>) -> Arc<Self> {
        Arc::new(Self {
            to,
            seen: Mutex::default(),
        })
    }
}

impl LeadingHub for ScriptedLeader {
    fn ask(&self, request: ForwardedRequest, _: Duration) -> Task<Result<ForwardedResponse, ForwardError>> {
        self.seen
            .lock()
            .unwrap()
            .push(serde_json::to_string(&request).unwrap());
        let to = self.to.clone();
        Box::pin(async move {
            let answer = to?.execute(request).await;
            answer.ok_or_else(|| ForwardError::NoLeader("it does not lead".to_owned()))
        })
    }
}

/// An API that follows the other one, with the sender of its standing.
fn follower(leader: Arc<ScriptedLeader>) -> (Served, watch::Sender<Standing>) {
    let (standing, standings) = watch::channel(Standing::Following(leader));
    (Served::start(TcpPeer::Other, standings), standing)
}

impl Served {
    fn forwarded(&self) -> ForwardedRequests {
        self.server.as_ref().unwrap().forwarded()
    }

    /// Answers the requests to the loop: with a status of this process, and to each action with who
    /// requests it.
    fn run_loop(&mut self, pid: i32) -> std::thread::JoinHandle<Vec<String>> {
        let (_, closed) = mpsc::channel(1);
        let mut asks = std::mem::replace(&mut self.asks, closed);
        std::thread::spawn(move || {
            let mut actors = Vec::new();
            while let Some(request) = asks.blocking_recv() {
                match request {
                    ControlRequest::Status(answer) => {
                        let mut status = Status::of(Daemon {
                            state: DaemonState::Running,
                            pid: Some(pid),
                            ..Daemon::default()
                        });
                        status.hub = Some(HubView {
                            leader: Some("other".to_owned()),
                            follower: None,
                        });
                        let _ = answer.send(Box::new(status));
                    }
                    ControlRequest::Act { action, by, answer } => {
                        actors.push(format!("{} {by}", action.as_str()));
                        let done = vik_core::scheduler::CommandResult::Done(1);
                        let _ = answer.send(Ok(done));
                    }
                    request => panic!("{request:?}"),
                }
            }
            actors
        })
    }
}

#[test]
fn follower_passes_on_requests_without_credentials_and_switches_without_a_disconnect() {
    let mut leading = Served::new();
    let loop_of_leader = leading.run_loop(1);
    let leader = ScriptedLeader::new(Ok(leading.forwarded()));
    let (mut following, standing) = follower(Arc::clone(&leader));
    let loop_of_follower = following.run_loop(2);
    let client = following
        .client()
        .with_header("Cookie", "session=a-cookie-for-a-test")
        .with_header("X-Api-Key", "a-key-for-a-test");
    let state = client.get("/api/v1/state").expect_status(200).json();
    assert_eq!(state["pid"], 1);
    assert_eq!(state["hub"], json!({"leader": "other", "follower": "here"}));
    assert_eq!(state["api"]["address"], following.address.as_str());
    let done = client
        .post("/api/v1/issues/7/cancel", &json!({}))
        .expect_status(200);
    assert_eq!(done.json()["count"], 1);
    // A query and an id with a slash arrive as they are.
    let refused = client.post("/api/v1/issues/a%2Fb/cancel?x=1", &json!({"more": 1}));
    assert_eq!(refused.expect_status(422).json()["code"], "bad_request");
    let seen = leader.seen.lock().unwrap().join("\n");
    assert!(seen.contains("/api/v1/issues/a%2Fb/cancel?x=1"), "{seen}");
    for secret in [TOKEN, "a-cookie-for-a-test", "a-key-for-a-test"] {
        assert!(!seen.contains(secret), "{seen}");
    }
    // Without a token, nothing is passed on.
    let count = leader.seen.lock().unwrap().len();
    let stranger = HttpClient::tcp(&following.address);
    let _ = stranger.get("/api/v1/state").expect_status(401);
    let _ = stranger
        .post("/api/v1/issues/7/cancel", &json!({}))
        .expect_status(401);
    // Nor what concerns the process itself.
    let _ = client.get("/healthz").expect_status(200);
    let _ = client.post("/api/v1/drain", &json!({})).expect_status(200);
    assert_eq!(leader.seen.lock().unwrap().len(), count);
    let mut events = following.client().events("/api/v1/events");
    following.readers(1);
    standing.send_replace(Standing::alone());
    assert_eq!(events.next().unwrap().event, "reset");
    let state = client.get("/api/v1/state").expect_status(200).json();
    assert_eq!(
        (&state["pid"], &state["hub"]["follower"]),
        (&json!(2), &json!(null))
    );
    standing.send_replace(Standing::Following(leader));
    let state = client.get("/api/v1/state").expect_status(200).json();
    assert_eq!(state["pid"], 1);
    drop((events, client, standing));
    drop((following, leading));
    let actors = loop_of_leader.join().unwrap();
    assert_eq!(actors, ["cancel a person (API token, 127.0.0.1) on here"]);
    let actors = loop_of_follower.join().unwrap();
    assert_eq!(actors, ["drain a person (API token, 127.0.0.1)"]);
}

#[test]
fn forwarded_request_is_not_passed_on_again() {
    let end = ScriptedLeader::new(Err(ForwardError::NoLeader("nobody".to_owned())));
    let (middle, standing) = follower(Arc::clone(&end));
    let leader = ScriptedLeader::new(Ok(middle.forwarded()));
    let (first, _standing) = follower(leader);
    let refused = first.client().get("/api/v1/state").expect_status(503).json();
    assert_eq!(refused["code"], "no_leader");
    assert!(end.seen.lock().unwrap().is_empty());
    drop(standing);
}

#[test]
fn forwarded_request_cannot_end_or_open_another_process() {
    let mut leading = Served::new();
    let ended = leading.run_loop(1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for path in ["stop", "drain", "link", "sign-ins/revoke"] {
        let request = json!({
            "method": "POST", "path": format!("/api/v1/{path}"), "content_type": "application/json",
            "body": "{}", "by": "a person", "follower": {"host": "elsewhere"},
        });
        let request: ForwardedRequest = serde_json::from_value(request).unwrap();
        let answer = runtime.block_on(leading.forwarded().execute(request)).unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        assert_eq!(answer["status"], 403, "{path}: {answer}");
    }
    drop(leading);
    assert!(ended.join().unwrap().is_empty());
}

#[test]
fn missing_leader_and_unknown_outcome_have_codes_of_their_own() {
    let unknown = ForwardError::Unknown {
        leader: "the hub that leads, on a,".to_owned(),
        reason: "it was lost".to_owned(),
    };
    for (error, status, code) in [
        (ForwardError::NoLeader("nobody".to_owned()), 503, "no_leader"),
        (unknown, 504, "outcome_unknown"),
    ] {
        let (following, _standing) = follower(ScriptedLeader::new(Err(error)));
        let client = following.client();
        let refused = client
            .post("/api/v1/issues/7/cancel", &json!({}))
            .expect_status(status);
        assert_eq!(refused.json()["code"], code);
        assert!(refused.json()["hint"].is_string());
    }
    let (_standing, standings) = watch::channel(Standing::Connecting);
    let connecting = Served::start(TcpPeer::Other, standings);
    let refused = connecting.client().get("/api/v1/issues").expect_status(503);
    assert_eq!(refused.json()["code"], "no_leader");
}
