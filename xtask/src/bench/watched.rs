//! The influence of readers on the daemon: the feed of the API with many clients.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use vik_api::Fact;
use vik_control::http::{Feed, HttpServer, Keys, Metrics, Setup, Tcp};
use vik_testkit::{HttpClient, wait_for};

use super::metric::{Key, Measured};
use super::scenarios::{ISSUES, issues, lines_of_agent, millis};
use super::scene::Scene;
use super::setting::{Setting, Subject};
use crate::repo::{Context as _, TaskResult};

/// The number of readers.
const READERS: usize = 200;

/// The number of events per second.
const RATE: usize = 10_000;

/// The number of agents that print them.
const AGENTS: usize = 10;

/// The interval of messages to a loop whose delays are measured.
const PROBE_INTERVAL: Duration = Duration::from_millis(5);

/// The duration of measuring the feed alone.
const PROBE_DURATION: Duration = Duration::from_secs(10);

/// Measures the time from a pull to its agent, beside agents that print 10,000 events a second:
/// without readers, and with 200.
pub fn watched(subject: &Subject, helper: &Path) -> TaskResult<Measured> {
    let lines = lines_of_agent(1_000)?;
    let mut measured = Measured::new();
    for (readers, latency, cpu) in [
        (0, Key::FloodedPoll, Key::FloodedCpu),
        (READERS, Key::WatchedPoll, Key::WatchedCpu),
    ] {
        let setting = Setting {
            pull: "{scene}/bin/pull fresh {scene}/issues.json".to_owned(),
            idle_secs: 1,
            concurrency: 20,
            agent: format!("pace {} {}", RATE / AGENTS, lines.path().display()),
            ..Setting::holding(issues(AGENTS, "todo"))
        };
        let mut scene = Scene::start(subject, helper, &setting)?;
        scene.wait_for("agent", AGENTS, Duration::from_secs(60))?;
        let clients = Clients::connect(readers, || {
            let events = HttpClient::unix(scene.socket()?).events("/api/v1/events");
            Ok(move |seen: &AtomicU64| {
                for _ in events {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            })
        })?;
        let (before, started) = (scene.sample()?, Instant::now());
        scene.wait_for("done", ISSUES, Duration::from_secs(ISSUES as u64 * 4 + 60))?;
        let used = scene.sample()?.cpu.saturating_sub(before.cpu);
        let lasted = started.elapsed().as_secs_f64();
        measured.insert(latency, scene.latencies());
        measured.insert(cpu, vec![used.as_secs_f64() * 100.0 / lasted]);
        if readers > 0 {
            measured.insert(Key::WatchedFacts, clients.rates(lasted));
        }
        scene.stop();
        clients.end();
    }
    Ok(measured)
}

/// Measures 10,000 events a second to 200 readers, in this process: how many arrive, and how late a
/// loop beside it gets its messages.
pub fn feed() -> TaskResult<Measured> {
    if cfg!(debug_assertions) {
        eprintln!(
            "the feed is measured in this process, which is a debug build: run `cargo run --release -p xtask -- bench feed`"
        );
    }
    let served = ApiServer::start()?;
    let alone = served.loop_delays();
    let (address, token) = (served.address.clone(), served.token.clone());
    let clients = Clients::connect(READERS, || {
        let mut stream = TcpStream::connect(&address).context("cannot connect")?;
        let request = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        std::io::Write::write_all(&mut stream, request.as_bytes()).map_err(|error| error.to_string())?;
        Ok(move |seen: &AtomicU64| {
            let mut bytes = vec![0; 256 * 1024];
            let mut unread = Vec::new();
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                unread.extend_from_slice(&bytes[..count]);
                let facts = unread.windows(END.len()).filter(|window| *window == END).count();
                seen.fetch_add(facts as u64, Ordering::Relaxed);
                unread.drain(..unread.len().saturating_sub(END.len() - 1));
            }
        })
    })?;
    if !wait_for(Duration::from_secs(30), || served.feed.readers() >= READERS) {
        return Err(format!("only {} readers connected", served.feed.readers()));
    }
    let (feed, sent) = (served.feed.clone(), Arc::new(AtomicU64::new(0)));
    let (stop, sender_count) = (Arc::new(AtomicBool::new(false)), Arc::clone(&sent));
    let stopped = Arc::clone(&stop);
    let started = Instant::now();
    let sender = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            let due = (started.elapsed().as_secs_f64() * RATE as f64) as u64;
            for number in sender_count.load(Ordering::Relaxed)..due {
                feed.publish(Fact::Issue {
                    issue_id: number.to_string().as_str().into(),
                    description: "`work` starts, attempt 1".to_owned(),
                });
            }
            sender_count.store(due, Ordering::Relaxed);
            sleep(Duration::from_millis(1));
        }
    });
    let beside = served.loop_delays();
    let lasted = started.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let _ = sender.join();
    let sent = sent.load(Ordering::Relaxed);
    let least = || clients.counts().min().unwrap_or(0);
    wait_for(Duration::from_secs(20), || least() >= sent);
    let share: Vec<f64> = clients
        .counts()
        .map(|seen| seen as f64 * 100.0 / sent as f64)
        .collect();
    let kept = served.feed.readers();
    drop(served);
    clients.end();
    if kept < READERS {
        eprintln!("{} of {READERS} readers were disconnected", READERS - kept);
    }
    Ok(Measured::from([
        (Key::FeedRate, vec![sent as f64 / lasted]),
        (Key::FeedShare, share),
        (Key::FeedKept, vec![kept as f64]),
        (Key::LoopAlone, alone),
        (Key::LoopBeside, beside),
    ]))
}

/// The bytes that mark the end of an event.
const END: &[u8] = b"}\n\n";

/// An API without a daemon.
struct ApiServer {
    _folder: tempfile::TempDir,
    _server: HttpServer,
    _asks: tokio::sync::mpsc::Receiver<vik_orchestrator::ControlRequest>,
    feed: Feed,
    address: String,
    token: String,
}

impl ApiServer {
    fn start() -> TaskResult<Self> {
        const FAILED: &str = "cannot serve the API";
        let folder = tempfile::tempdir().context(FAILED)?;
        let workflow = folder.path().join("workflow.yml");
        std::fs::write(&workflow, "").context(FAILED)?;
        let root = vik_core::workflow::WorkspaceRoot::Path(folder.path().join("home").display().to_string());
        let layout = vik_workspace::Layout::resolve(&workflow, &root).context(FAILED)?;
        let tcp = Tcp::bind(([127, 0, 0, 1], 0).into()).context(FAILED)?;
        let address = tcp.address().to_string();
        let file = folder.path().join("api.token");
        let keys = Keys::load(&file).context(FAILED)?;
        let token = std::fs::read_to_string(&file).context(FAILED)?;
        let (asks, receiver) = tokio::sync::mpsc::channel(1);
        let feed = Feed::default();
        let server = HttpServer::start(Setup {
            layout,
            supervisor: vik_proc::Supervisor::this_program().context(FAILED)?,
            asks,
            feed: feed.clone(),
            metrics: Metrics::default(),
            keys: Arc::new(keys),
            names: Vec::new(),
            identify: Arc::new(|_, _| vik_proc::TcpPeer::Other),
            tcp: Some(tcp),
            max_clients: usize::MAX,
            standing: tokio::sync::watch::channel(vik_control::http::Standing::alone()).1,
            host: "bench".into(),
        })
        .context(FAILED)?;
        Ok(Self {
            _folder: folder,
            _server: server,
            _asks: receiver,
            feed,
            address,
            token,
        })
    }

    /// Measures the delays of messages in a runtime like the daemon's.
    fn loop_delays(&self) -> Vec<f64> {
        let Ok(runtime) = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
        else {
            return Vec::new();
        };
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<Instant>(64);
        let prober = std::thread::spawn(move || {
            let until = Instant::now() + PROBE_DURATION;
            while Instant::now() < until && sender.blocking_send(Instant::now()).is_ok() {
                sleep(PROBE_INTERVAL);
            }
        });
        let late = runtime.block_on(async {
            let taking = tokio::spawn(async move {
                let mut late = Vec::new();
                while let Some(sent) = receiver.recv().await {
                    late.push(millis(sent.elapsed()));
                }
                late
            });
            taking.await.unwrap_or_default()
        });
        let _ = prober.join();
        late
    }
}

/// Readers with a thread each.
struct Clients {
    threads: Vec<JoinHandle<()>>,
    seen: Vec<Arc<AtomicU64>>,
}

impl Clients {
    fn connect<R>(count: usize, open: impl Fn() -> TaskResult<R>) -> TaskResult<Self>
    where
        R: FnOnce(&AtomicU64) + Send + 'static,
    {
        let mut clients = Self {
            threads: Vec::new(),
            seen: Vec::new(),
        };
        for _ in 0..count {
            let read = open()?;
            let seen = Arc::new(AtomicU64::new(0));
            clients.seen.push(Arc::clone(&seen));
            clients.threads.push(std::thread::spawn(move || read(&seen)));
        }
        Ok(clients)
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        self.seen.iter().map(|seen| seen.load(Ordering::Relaxed))
    }

    /// Returns the events per second of each reader.
    fn rates(&self, seconds: f64) -> Vec<f64> {
        self.counts().map(|seen| seen as f64 / seconds).collect()
    }

    /// Waits for the readers, which end because the server has stopped.
    fn end(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
