//! Tests of the feed under load and of the published documents.

use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use vik_api::{Daemon, Fact, Status};
use vik_testkit::HttpClient;
use vik_workspace::Layout;

use super::*;

mod forward;

/// An API server without a daemon.
struct Served {
    _folder: tempfile::TempDir,
    server: Option<HttpServer>,
    feed: Feed,
    keys: Arc<Keys>,
    address: String,
    asks: mpsc::Receiver<ControlRequest>,
}

const TOKEN: &str = "a-token-for-a-test";

impl Served {
    fn new() -> Self {
        Self::with_peer(vik_proc::TcpPeer::Other)
    }

    /// Starts an API whose connections all seem to come from this peer.
    fn with_peer(peer: vik_proc::TcpPeer) -> Self {
        Self::start(peer, watch::channel(Standing::alone()).1)
    }

    fn start(peer: vik_proc::TcpPeer, standing: watch::Receiver<Standing>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workflow = folder.path().join("workflow.yml");
        std::fs::write(&workflow, "").unwrap();
        let root = vik_core::workflow::WorkspaceRoot::Path(
            folder.path().join("home").to_string_lossy().into_owned(),
        );
        let tcp = Tcp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = tcp.address().to_string();
        let (asks, receiver) = mpsc::channel(1);
        let feed = Feed::default();
        let keys = Arc::new(Keys::new(TOKEN.to_owned()));
        let server = HttpServer::start(Setup {
            standing,
            host: "here".into(),
            layout: Layout::resolve(&workflow, &root).unwrap(),
            supervisor: vik_proc::Supervisor::this_program().unwrap(),
            asks,
            feed: feed.clone(),
            metrics: Metrics::default(),
            keys: Arc::clone(&keys),
            names: Vec::new(),
            identify: Arc::new(move |_, _| peer),
            tcp: Some(tcp),
            max_clients: usize::MAX,
        })
        .unwrap();
        Self {
            _folder: folder,
            server: Some(server),
            feed,
            keys,
            address,
            asks: receiver,
        }
    }

    fn client(&self) -> HttpClient {
        HttpClient::tcp(&self.address).with_header("Authorization", &format!("Bearer {TOKEN}"))
    }

    fn publish(&self, number: usize) {
        self.feed.publish(Fact::Issue {
            issue_id: number.to_string().as_str().into(),
            description: "something ".repeat(1_000),
        });
    }

    fn readers(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.feed.readers() != count {
            assert!(Instant::now() < until, "{} readers", self.feed.readers());
            std::thread::yield_now();
        }
    }
}

#[test]
fn stuck_reader_is_dropped_and_others_get_all_events() {
    // More facts than the kernel and the server buffer for one reader.
    const FACTS: usize = 3_000;
    let served = Served::new();
    let slowest = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let readers: Vec<_> = (0..2)
        .map(|which| {
            let events = served.client().events("/api/v1/events");
            let slowest = Arc::clone(&slowest);
            std::thread::spawn(move || {
                let mut next = 0;
                for event in events {
                    assert_eq!(event.data["issue_id"], next.to_string(), "in order, none lost");
                    next += 1;
                    slowest[which].store(next, Ordering::Relaxed);
                    if next == FACTS {
                        return;
                    }
                }
                panic!("let go after {next}");
            })
        })
        .collect();
    let stuck = served.client().events("/api/v1/events");
    served.readers(3);
    for number in 0..FACTS {
        served.publish(number);
        // Publishes at the readers' speed: a reader of this test is a thread of a debug build.
        while slowest
            .iter()
            .any(|seen| seen.load(Ordering::Relaxed) + 20 < number)
        {
            std::thread::yield_now();
        }
    }
    for reader in readers {
        reader.join().unwrap();
    }
    // Only the reader that does not read was disconnected by the server.
    let until = Instant::now() + Duration::from_secs(60);
    while served.feed.readers() > 0 && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(served.feed.readers(), 0, "the stuck one is let go");
    assert!(stuck.count() < FACTS);
}

#[test]
fn shutdown_does_not_wait_for_readers() {
    let mut served = Served::new();
    let mut events = served.client().events("/api/v1/events");
    let mut idle = TcpStream::connect(&served.address).unwrap();
    served.readers(1);
    let started = Instant::now();
    drop(served.server.take());
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(events.next(), None);
    assert!(matches!(idle.read(&mut [0; 1]), Ok(0) | Err(_)));
}

#[test]
fn openapi_document_covers_all_routes() {
    let document = openapi();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(
        paths
            .values()
            .map(|path| path.as_object().unwrap().len())
            .sum::<usize>(),
        routes::routes().len()
    );
    let text = document.to_string();
    for reference in text.match_indices("#/components/schemas/") {
        let name = text[reference.0 + 21..].split('"').next().unwrap();
        assert!(!document["components"]["schemas"][name].is_null(), "{name}");
    }
    insta::assert_json_snapshot!(paths["/api/v1/sessions/{id}/events"]);
}

#[test]
fn metrics_have_their_documented_names() {
    let metrics = Metrics::default();
    let not_running = Status::of(Daemon {
        version: Some("1.2.3".to_owned()),
        workflow_path: "workflow.yml".into(),
        ..Daemon::default()
    });
    let text = String::from_utf8(metrics.text(&not_running, 0).unwrap()).unwrap();
    insta::assert_snapshot!(text);
}

/// A process that cannot be found may be an agent's, and agents may have read the API token.
#[test]
fn hidden_peer_needs_a_sign_in() {
    let served = Served::with_peer(vik_proc::TcpPeer::Hidden);
    let refused = served.client().get("/api/v1/openapi.json").expect_status(403);
    assert!(refused.body.contains("vik status"), "{}", refused.body);
    let code = served.keys.link();
    let browser = HttpClient::tcp(&served.address);
    let reply = browser.post("/api/v1/sign-in", &serde_json::json!({"code": code}));
    let token = reply.expect_status(200).json()["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let browser = browser.with_header("Authorization", &format!("Bearer {token}"));
    let _ = browser.get("/api/v1/openapi.json").expect_status(200);
    for peer in [vik_proc::TcpPeer::Descendant, vik_proc::TcpPeer::Unknown] {
        let served = Served::with_peer(peer);
        let _ = served.client().get("/api/v1/openapi.json").expect_status(403);
        let code = served.keys.link();
        let browser = HttpClient::tcp(&served.address);
        let _ = browser
            .post("/api/v1/sign-in", &serde_json::json!({"code": code}))
            .expect_status(403);
    }
}

/// A feed reader's stream ends with its sign-in, by revocation or by expiry.
#[test]
fn event_stream_ends_with_its_sign_in() {
    let served = Served::new();
    let now = jiff::Timestamp::now();
    let here = "127.0.0.1".parse().unwrap();
    let (token, _) = served.keys.sign_ins().create(here, "Firefox", now).unwrap();
    let reader = HttpClient::tcp(&served.address).with_header("Authorization", &format!("Bearer {token}"));
    let mut events = reader.events("/api/v1/events");
    served.readers(1);
    assert_eq!(served.keys.sign_ins().revoke(None, now).unwrap(), 1);
    assert_eq!(events.next(), None);
    served.readers(0);
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2)
        - jiff::SignedDuration::from_hours(7 * 24);
    let (token, _) = served.keys.sign_ins().create(here, "Firefox", soon).unwrap();
    let reader = HttpClient::tcp(&served.address).with_header("Authorization", &format!("Bearer {token}"));
    assert_eq!(reader.events("/api/v1/events").next(), None);
    let _ = reader.get("/api/v1/events").expect_status(401);
}

#[test]
fn browser_gets_a_page_for_an_unknown_path_and_no_more_than_that_without_a_token() {
    let served = Served::new();
    let program = HttpClient::tcp(&served.address);
    let browser = program
        .clone()
        .with_header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for path in ["/nothing", "/issues", "/nothing/at/all"] {
        let page = browser.get(path).expect_status(404);
        assert!(page.body.starts_with("<!doctype html>"), "{path}: {}", page.body);
        let _ = program.get(path).expect_status(401);
        let problem = served.client().get(path).expect_status(404).json();
        assert_eq!(problem["code"], "not_found", "{path}");
    }
    for path in [
        "/api/v1/state",
        "/api/v1/nothing",
        "/metrics",
        "/healthz",
        "/readyz",
    ] {
        let refused = browser.get(path).expect_status(401).json();
        assert_eq!(refused["code"], "unauthorized", "{path}");
    }
    let icon = browser.get("/favicon.ico").expect_status(200);
    assert!(icon.body.starts_with("<svg"), "{}", icon.body);
}
