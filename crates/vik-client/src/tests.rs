use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use vik_api::{Action, Daemon, DaemonState, Fact, FeedEvent, Status};
use vik_core::approval::Answer;
use vik_core::ids::IssueId;
use vik_core::scheduler::{ApprovalReply, Command, RetryRequest};

use super::*;

/// The requests that were received: head and body.
type RecordedRequests = Arc<Mutex<Vec<(String, String)>>>;

fn raw_response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn json_response(value: &Value) -> String {
    raw_response("200 OK", "application/json", &value.to_string())
}

fn state_response() -> String {
    let daemon = Daemon {
        state: DaemonState::Running,
        pid: Some(4711),
        workflow_path: "workflow.yml".into(),
        ..Daemon::default()
    };
    json_response(&json!(Status::of(daemon)))
}

fn problem(status: u16, code: &str) -> String {
    let problem =
        json!({"type": "about:blank", "title": "", "status": status, "detail": "refused", "code": code});
    raw_response(
        &format!("{status} Refused"),
        "application/problem+json",
        &problem.to_string(),
    )
}

/// Reads one request, sends one response, and closes the connection.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: String, recorded: RecordedRequests) {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap();
        if count == 0 {
            return;
        }
        bytes.extend(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            break (text[..end].to_owned(), end + 4 + length.unwrap_or(0));
        }
    };
    while bytes.len() < length {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap();
        bytes.extend(&chunk[..count]);
    }
    let body = String::from_utf8_lossy(&bytes[head.len() + 4..]).into_owned();
    recorded.lock().unwrap().push((head, body));
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.ok();
}

fn on_unix(path: &Path, answers: Vec<String>) -> RecordedRequests {
    let recorded = RecordedRequests::default();
    let listener = UnixListener::bind(path).unwrap();
    let given = Arc::clone(&recorded);
    tokio::spawn(async move {
        for answer in answers {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream, answer, Arc::clone(&given)).await;
        }
    });
    recorded
}

async fn on_tcp(answers: Vec<String>) -> (String, RecordedRequests) {
    let recorded = RecordedRequests::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let given = Arc::clone(&recorded);
    tokio::spawn(async move {
        for answer in answers {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream, answer, Arc::clone(&given)).await;
        }
    });
    (address, recorded)
}

fn tcp(url: &str) -> Client {
    let endpoint = Endpoint::Tcp {
        url: url.to_owned(),
        token: "s3cret\n".to_owned(),
    };
    Client::new(&endpoint, "vik-top").unwrap()
}

fn requests(recorded: &RecordedRequests) -> Vec<(String, String)> {
    let recorded = recorded.lock().unwrap();
    let first = |head: &str| head.lines().next().unwrap_or("").to_owned();
    recorded
        .iter()
        .map(|(head, body)| (first(head), body.clone()))
        .collect()
}

#[tokio::test]
async fn client_sends_every_query_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vik.sock");
    let page = || json_response(&json!({"schema": 1, "issues": [], "next": null, "total": 0}));
    let daemon = json!({"state": "running", "workflow_path": "workflow.yml"});
    let explained = json!({"schema": 1, "daemon": daemon, "issue_id": "a/b", "decisions": [], "runs": []});
    let events =
        json!({"schema": 1, "session_id": "x", "events": [{"seq": 8}], "last_seq": 8, "ended": true});
    let diff = json!({"schema": 1, "files": [], "files_left_out": 2});
    let answers = vec![
        state_response(),
        page(),
        page(),
        json_response(&explained),
        json_response(&events),
        json_response(&diff),
        json_response(&json!({"schema": 1, "sign_ins": []})),
        json_response(&json!({"url": "http://127.0.0.1/login#code=1"})),
    ];
    let recorded = on_unix(&path, answers);
    let client = Client::new(&Endpoint::Unix(path), "vik").unwrap();
    let issue = || IssueId::from("a/b ?#%\u{e9}\r\n");
    assert_eq!(client.state().await.unwrap().daemon.pid, Some(4711));
    client.issues(None, 500).await.unwrap();
    client.issues(Some(&issue()), 2).await.unwrap();
    assert_eq!(
        client.issue(&issue()).await.unwrap().issue_id,
        IssueId::from("a/b")
    );
    assert_eq!(client.events("../x", 7, 500).await.unwrap().events.len(), 1);
    assert_eq!(client.diff("0198").await.unwrap().files_left_out, 2);
    assert!(client.sign_ins().await.unwrap().sign_ins.is_empty());
    assert!(client.link().await.unwrap().url.ends_with("code=1"));
    let expected = [
        ("GET /api/v1/state HTTP/1.1", ""),
        ("GET /api/v1/issues?limit=500 HTTP/1.1", ""),
        (
            "GET /api/v1/issues?limit=2&after=a%2Fb%20%3F%23%25%C3%A9%0D%0A HTTP/1.1",
            "",
        ),
        ("GET /api/v1/issues/a%2Fb%20%3F%23%25%C3%A9%0D%0A HTTP/1.1", ""),
        (
            "GET /api/v1/sessions/..%2Fx/events?after=7&limit=500 HTTP/1.1",
            "",
        ),
        ("GET /api/v1/sessions/0198/diff HTTP/1.1", ""),
        ("GET /api/v1/sign-ins HTTP/1.1", ""),
        ("POST /api/v1/link HTTP/1.1", "{}"),
    ];
    let expected = expected.map(|(head, body)| (head.to_owned(), body.to_owned()));
    assert_eq!(requests(&recorded), expected);
    let recorded = recorded.lock().unwrap();
    let heads: Vec<_> = recorded.iter().map(|(head, _)| head.to_lowercase()).collect();
    assert!(!heads.iter().any(|head| head.contains("authorization")));
    assert!(heads.iter().all(|head| head.contains("user-agent: vik/")));
    assert!(heads[7].contains("content-type: application/json"));
}

#[tokio::test]
async fn client_sends_every_action() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vik.sock");
    let answer = |answer| {
        Command::Answer(ApprovalReply {
            issue: "7".into(),
            stage: Some("build".into()),
            request: Some("r".to_owned()),
            answer,
        })
    };
    let retry = Command::Retry(RetryRequest {
        issue: "7".into(),
        stage: None,
        attempts: Some(2),
        agent: true,
    });
    let decision = r#"{"stage":"build","request":"r","message":null}"#;
    let instruction = r#"{"stage":"build","request":"r","message":"no"}"#;
    let cases = [
        (Action::Refresh, "refresh", "{}"),
        (
            Action::Stop { keep_sessions: true },
            "stop",
            r#"{"keep_sessions":true}"#,
        ),
        (Command::Pause(None).into(), "pause", r#"{"issue_id":null}"#),
        (
            Command::Resume(Some("7".into())).into(),
            "resume",
            r#"{"issue_id":"7"}"#,
        ),
        (Command::Cancel("..".into()).into(), "issues/%2E%2E/cancel", "{}"),
        (
            retry.into(),
            "issues/7/retry",
            r#"{"stage":null,"attempts":2,"agent":true}"#,
        ),
        (
            answer(Answer::Approve { message: None }).into(),
            "issues/7/approve",
            decision,
        ),
        (answer(Answer::denied(None)).into(), "issues/7/deny", decision),
        (
            answer(Answer::denied(Some("no".to_owned()))).into(),
            "issues/7/deny",
            instruction,
        ),
        (Command::Drain.into(), "drain", "{}"),
    ];
    let steered = json_response(&json!({"count": 0, "nothing": "nothing is parked"}));
    let recorded = on_unix(&path, vec![steered; cases.len()]);
    let client = Client::new(&Endpoint::Unix(path), "vik").unwrap();
    for (action, ..) in &cases {
        let steered = client.act(action).await.unwrap();
        assert_eq!(steered.nothing.as_deref(), Some("nothing is parked"));
    }
    let expected: Vec<_> = cases
        .iter()
        .map(|(_, path, body)| (format!("POST /api/v1/{path} HTTP/1.1"), (*body).to_owned()))
        .collect();
    assert_eq!(requests(&recorded), expected);
}

/// Answers a stop over HTTP as the previous version does, and then this line.
fn previous_daemon(path: &Path, answer: &'static str) -> RecordedRequests {
    let recorded = RecordedRequests::default();
    let listener = UnixListener::bind(path).unwrap();
    let given = Arc::clone(&recorded);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, problem(404, "not_found"), Arc::clone(&given)).await;
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut line = [0; 256];
        let count = stream.read(&mut line).await.unwrap();
        let line = String::from_utf8_lossy(&line[..count]).into_owned();
        given.lock().unwrap().push((line, String::new()));
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    recorded
}

#[tokio::test]
async fn stop_reaches_a_daemon_of_the_previous_version() {
    let accepted = "\"accepted\"\n";
    let refused =
        "{\"error\":{\"code\":\"stopping\",\"message\":\"the daemon is shutting down\",\"hint\":null}}\n";
    for (keep_sessions, line, answer) in [
        (false, "{\"v\":1,\"verb\":\"stop\"}\n", accepted),
        (
            true,
            "{\"v\":1,\"verb\":\"stop\",\"keep_sessions\":true}\n",
            refused,
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vik.sock");
        let recorded = previous_daemon(&path, answer);
        let client = Client::new(&Endpoint::Unix(path), "vik").unwrap();
        match client.act(&Action::Stop { keep_sessions }).await {
            Ok(steered) => assert_eq!((steered.count, answer), (0, accepted)),
            Err(ClientError::Refused(problem)) => assert_eq!(problem.code, "stopping"),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(recorded.lock().unwrap()[1].0, line);
    }
}

#[tokio::test]
async fn client_sends_the_token_over_tcp() {
    let answers = vec![state_response(); 2];
    let (address, recorded) = on_tcp(answers).await;
    assert_eq!(
        tcp(&format!("http://{address}"))
            .state()
            .await
            .unwrap()
            .daemon
            .pid,
        Some(4711)
    );
    tcp(&format!("{address}/behind/")).state().await.unwrap();
    let recorded = recorded.lock().unwrap();
    let head = recorded[0].0.to_lowercase();
    assert!(
        head.contains("authorization: bearer s3cret\r\n") || head.ends_with("authorization: bearer s3cret"),
        "{head}"
    );
    assert!(head.contains(&format!("host: {address}")));
    assert!(recorded[1].0.starts_with("GET /behind/api/v1/state "));
    let endpoint = Endpoint::Tcp {
        url: "http://x".to_owned(),
        token: "s3cret".to_owned(),
    };
    assert!(!format!("{endpoint:?}").contains("s3cret"));
}

#[tokio::test]
async fn client_exchanges_a_link_for_a_token() {
    let signed_in = json_response(
        &json!({"schema": 1, "id": "1", "token": "s3cret", "expires_at": "2026-01-01T00:00:00Z"}),
    );
    let (address, asked) = on_tcp(vec![signed_in]).await;
    let url = format!("http://{address}");
    let endpoint = Endpoint::sign_in(&url, "c0de").await.unwrap();
    let token = "s3cret".to_owned();
    assert!(endpoint == Endpoint::Tcp { url, token });
    let asked = requests(&asked);
    let body = r#"{"code":"c0de"}"#.to_owned();
    assert_eq!(asked, [("POST /api/v1/sign-in HTTP/1.1".to_owned(), body)]);
}

#[tokio::test]
async fn client_errors_name_the_reason() {
    let problem = json!({"type": "about:blank", "title": "Unauthorized", "status": 401, "detail": "no token was given",
        "code": "unauthorized", "hint": "read it from the token file"});
    let answers = vec![
        raw_response(
            "401 Unauthorized",
            "application/problem+json",
            &problem.to_string(),
        ),
        raw_response("502 Bad Gateway", "text/html", "<h1>no</h1>"),
        raw_response("200 OK", "application/json", "{\"schema\":"),
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{".to_owned(),
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "not HTTP at all\r\n\r\n".to_owned(),
    ];
    let (address, recorded) = on_tcp(answers).await;
    let client = tcp(&address);
    let refused = client.state().await.unwrap_err();
    assert_eq!(refused.with_causes(), "no token was given");
    assert_eq!(refused.hint(), Some("read it from the token file"));
    assert!(!refused.is_unreachable());
    let gateway = client.state().await.unwrap_err();
    assert_eq!(
        gateway.with_causes(),
        format!("{address} answered with HTTP status 502")
    );
    let cut = client.state().await.unwrap_err();
    assert!(matches!(cut, ClientError::Decode { .. }), "{cut:?}");
    let broken = client.state().await.unwrap_err();
    assert!(
        matches!(broken, ClientError::Broken { .. }) && broken.is_unreachable(),
        "{broken:?}"
    );
    // A redirect is an error and is not followed.
    let elsewhere = client.state().await.unwrap_err();
    assert!(
        matches!(elsewhere, ClientError::Status { status: 302, .. }),
        "{elsewhere:?}"
    );
    let nonsense = client.state().await.unwrap_err();
    assert!(matches!(nonsense, ClientError::Broken { .. }), "{nonsense:?}");
    assert_eq!(recorded.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn client_reports_a_missing_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vik.sock");
    let error = Client::new(&Endpoint::Unix(path), "vik")
        .unwrap()
        .state()
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClientError::Connect { .. }) && error.is_unreachable(),
        "{error:?}"
    );
    assert!(error.hint().is_some());
}

#[test]
fn client_refuses_invalid_addresses() {
    for (url, why) in [
        (
            "https://host:1",
            "TLS is not supported; forward the port with ssh instead",
        ),
        ("ftp://host", "it does not start with `http://`"),
        ("http://me:pw@host", "a user or password is not supported"),
        ("http://", "it is not a valid URL"),
    ] {
        let endpoint = Endpoint::Tcp {
            url: url.to_owned(),
            token: "t".to_owned(),
        };
        match Client::new(&endpoint, "vik") {
            Err(ClientError::Address { why: reported, .. }) => assert_eq!(reported, why, "{url}"),
            _ => panic!("{url} was taken"),
        }
    }
    assert_eq!(tcp("http://[::1]:8080").target(), "[::1]:8080");
}

#[tokio::test]
async fn feed_yields_events_until_it_breaks_off() {
    let event = |kind: &str, fields: &Value| {
        let mut data = json!({"at": "2026-03-04T12:00:00Z", "type": kind});
        data.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        format!("event: {kind}\ndata: {data}\n\n")
    };
    let feed = [
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned(),
        ": still here\n\n".to_owned(),
        event("reset", &json!({})),
        event("pulled", &json!({"ok": true, "issues": 3})),
        event("news", &json!({"what": "of a later version"})),
        event("issue", &json!({"issue_id": "7", "what": "parked"})),
    ];
    let (address, recorded) = on_tcp(vec![
        feed.concat(),
        raw_response("404 Not Found", "text/plain", ""),
    ])
    .await;
    let client = tcp(&address);
    let mut feed = client.feed().await.unwrap();
    let fact = |event: Option<Option<FeedEvent>>| event.unwrap().map(|event| event.fact);
    assert!(matches!(fact(feed.next().await), Some(Fact::Reset)));
    assert!(matches!(
        fact(feed.next().await),
        Some(Fact::Pulled { issues: 3, .. })
    ));
    assert!(
        fact(feed.next().await).is_none(),
        "something changed, whatever it is"
    );
    assert!(matches!(fact(feed.next().await), Some(Fact::Issue { .. })));
    assert!(feed.next().await.is_none());
    assert!(
        recorded.lock().unwrap()[0]
            .0
            .to_lowercase()
            .contains("accept: text/event-stream")
    );
    assert!(client.feed().await.is_err());
}
