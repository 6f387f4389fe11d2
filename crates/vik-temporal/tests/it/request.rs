use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use nix::sys::signal::Signal;
use tokio::sync::{Semaphore, watch};
use vik_temporal::attempt::{AttemptContext, AttemptEnd, AttemptOutcome, AttemptRunner, WorkerHost};
use vik_temporal::hub::Hub;
use vik_temporal::lead::MIN_LEAD_TIMEOUT;
use vik_temporal::log::Limits;
use vik_temporal::request::{PendingRequest, ReceivedRequest, Recipient, RequestError, Requests, Responder};

use crate::attempt::{World, noise, updates};
use crate::child::{Process, print};
use crate::server::{HubWithLog, PATIENCE, Server, queue, worker_name};

/// Longer than any request of a test takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Answers as the body asks for. The name is that of the recipient.
pub struct Scripted(pub &'static str);

impl Responder for Scripted {
    fn respond(&self, request: ReceivedRequest) -> BoxFuture<'static, Result<String, String>> {
        respond(self.0, request).boxed()
    }
}

async fn respond(recipient: &str, request: ReceivedRequest) -> Result<String, String> {
    match request.body.as_str() {
        "recipient" => Ok(recipient.to_owned()),
        "id" => Ok(request.id),
        "refuse" => Err("there is no such workspace".to_owned()),
        "panic" => panic!("as the test wants"),
        "large" => Ok(noise(2 * 1024 * 1024)),
        "large refusal" => Err(noise(2 * 1024 * 1024)),
        "hang" => {
            let _dropped = PrintOnDrop("dropped");
            print("answering");
            std::future::pending().await
        }
        _ => Ok(request.body),
    }
}

struct PrintOnDrop(&'static str);

impl Drop for PrintOnDrop {
    fn drop(&mut self) {
        print(self.0);
    }
}

fn worker() -> Recipient {
    Recipient::Worker(worker_name())
}

fn absent_hub() -> Recipient {
    Recipient::Hub("00000000-0000-4000-8000-000000000000".parse().unwrap())
}

fn requests(hub: &HubWithLog) -> Requests {
    Requests::new(hub.client.clone(), queue())
}

/// Starts a request that its recipient does not answer, and waits until it has it.
async fn hanging(requests: &Requests, recipient: &Process) -> PendingRequest {
    let request = requests.start(&worker(), "hang".to_owned(), LIMIT).await;
    recipient.wait_for("answering");
    request.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_answered_by_the_process_that_it_names() {
    let Some(server) = Server::start() else { return };
    let world = World::with(server.hub(Limits::default()).await);
    let host = world.worker();
    let client = server.client().await;
    let other = Hub::start(
        client,
        &queue(),
        MIN_LEAD_TIMEOUT,
        Arc::new(Scripted("other hub")),
    )
    .await;
    let other = other.unwrap();
    let requests = requests(&world.hub);
    let send = |to: Recipient, body: &str| {
        let (requests, body) = (requests.clone(), body.to_owned());
        async move { requests.send(&to, body, LIMIT).await }
    };
    let recipients = [
        (worker(), "worker"),
        (Recipient::Hub(world.hub.hub.id), "hub"),
        (Recipient::Hub(other.id), "other hub"),
    ];
    for (recipient, name) in recipients {
        assert_eq!(send(recipient, "recipient").await.unwrap(), name);
    }
    for text in [
        "",
        "\0\r\n\u{1b}[31m\u{202e}\u{feff}\u{fffe}",
        "\"}],{\\u0000",
        "${x} `y` %s {0}",
    ] {
        assert_eq!(send(worker(), text).await.unwrap(), text);
    }
    let refused = RequestError::Refused("there is no such workspace".to_owned());
    assert_eq!(send(worker(), "refuse").await, Err(refused));
    let failed = RequestError::Failed("the recipient panicked".to_owned());
    assert_eq!(send(worker(), "panic").await, Err(failed));

    let id = send(worker(), "id").await.unwrap();
    let events = server.history_length(&world.hub.client, &id).await;
    println!("history of a request: {events} events");
    let started = Instant::now();
    for _ in 0..20 {
        send(worker(), "quick").await.unwrap();
    }
    println!("a request takes {:?}", started.elapsed() / 20);
    other.stop().await.unwrap();
    host.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_too_large_is_refused_on_either_side() {
    let Some(server) = Server::start() else { return };
    let world = World::with(server.hub(Limits::default()).await);
    let _host = world.worker();
    let requests = requests(&world.hub);
    let recipient = worker();
    let send = |body: String| requests.send(&recipient, body, LIMIT);
    let RequestError::InvalidBody(reason) = send(noise(2 * 1024 * 1024)).await.unwrap_err() else {
        panic!("the body was sent");
    };
    assert!(reason.contains("the maximum is 1048576"), "{reason}");
    for body in ["large", "large refusal"] {
        let RequestError::InvalidAnswer(reason) = send(body.to_owned()).await.unwrap_err() else {
            panic!("the answer was sent");
        };
        assert!(reason.contains("the maximum is 1048576"), "{reason}");
    }
    // Almost a MiB after the codec, as body and as answer.
    let large = noise(1_330_000);
    assert!(send(large.clone()).await.unwrap() == large);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_a_recipient_is_not_taken() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let requests = requests(&hub);
    let started = Instant::now();
    for recipient in [worker(), absent_hub()] {
        let answer = requests.send(&recipient, "x".to_owned(), LIMIT).await;
        assert_eq!(answer, Err(RequestError::NotTaken));
    }
    let took = started.elapsed() / 2;
    println!("not taken after {took:?}");
    assert!(took >= Duration::from_secs(3), "{took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_a_hub_ends_at_its_limit() {
    let Some(server) = Server::start() else { return };
    let requests = Requests::new(server.client().await, queue());
    let started = Instant::now();
    let answer = requests.send(&worker(), "x".to_owned(), Duration::ZERO).await;
    assert_eq!(answer, Err(RequestError::TimedOut));
    let took = started.elapsed();
    assert!(took < 2 * PATIENCE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_to_a_killed_recipient_is_lost_and_not_repeated() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let requests = requests(&hub);
    let mut recipient = Process::start("worker", "w", server.port());
    recipient.wait_for("ready");
    let mut request = hanging(&requests, &recipient).await;
    let killed = Instant::now();
    recipient.kill();
    let next = Process::start("worker", "w", server.port());
    next.wait_for("ready");
    assert_eq!(request.answer().await, Err(RequestError::Lost));
    println!("lost {:?} after the kill", killed.elapsed());
    let answer = requests.send(&worker(), "recipient".to_owned(), LIMIT).await;
    assert_eq!(answer.unwrap(), "worker");
    assert_eq!(next.printed(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_recipient_drops_its_request_when_it_wakes() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let recipient = Process::start("worker", "w", server.port());
    recipient.wait_for("ready");
    let mut request = hanging(&requests(&hub), &recipient).await;
    recipient.signal(Signal::SIGSTOP);
    assert_eq!(request.answer().await, Err(RequestError::Lost));
    recipient.signal(Signal::SIGCONT);
    let woke = recipient.wait_for("dropped");
    assert!(woke < Duration::from_secs(1), "{woke:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_a_caller_is_dropped_by_its_recipient() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let requests = requests(&hub);
    let recipient = Process::start("worker", "w", server.port());
    recipient.wait_for("ready");

    let mut cancelled = hanging(&requests, &recipient).await;
    cancelled.cancel().await.unwrap();
    assert_eq!(cancelled.answer().await, Err(RequestError::Cancelled));
    println!("cancelled: dropped after {:?}", recipient.wait_for("dropped"));
    cancelled.cancel().await.unwrap();

    let dropped = hanging(&requests, &recipient).await;
    drop(dropped);
    println!("dropped: dropped after {:?}", recipient.wait_for("dropped"));

    let sent = requests.clone();
    let sent = tokio::spawn(async move { sent.send(&worker(), "hang".to_owned(), LIMIT).await });
    recipient.wait_for("answering");
    sent.abort();
    println!("aborted: dropped after {:?}", recipient.wait_for("dropped"));

    let answer = requests.send(&worker(), "hang".to_owned(), Duration::ZERO).await;
    assert_eq!(answer, Err(RequestError::TimedOut));
    println!("timed out: dropped after {:?}", recipient.wait_for("dropped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_cancelled_before_it_is_taken_is_not_carried_out() {
    let Some(server) = Server::start() else { return };
    // No hub runs yet, so that it is cancelled before the first step of its workflow.
    let early = Requests::new(server.client().await, queue());
    let mut early = early.start(&worker(), "hang".to_owned(), LIMIT).await.unwrap();
    early.cancel().await.unwrap();
    let hub = server.hub(Limits::default()).await;
    assert_eq!(early.answer().await, Err(RequestError::Cancelled));

    let mut late = requests(&hub)
        .start(&worker(), "hang".to_owned(), LIMIT)
        .await
        .unwrap();
    server.wait_for_event(&hub.client, late.id(), 5).await;
    late.cancel().await.unwrap();
    assert_eq!(late.answer().await, Err(RequestError::Cancelled));
}

/// Counts attempts and requests that run until the receiver's sender is dropped.
#[derive(Clone)]
struct Occupied {
    started: Arc<Semaphore>,
    released: watch::Receiver<()>,
}

impl Occupied {
    async fn run(mut self) {
        self.started.add_permits(1);
        let _ = self.released.changed().await;
    }

    /// Waits until `count` further ones have started.
    async fn wait_for(&self, count: usize) {
        let started = self.started.acquire_many(count.try_into().unwrap());
        tokio::time::timeout(PATIENCE, started)
            .await
            .unwrap()
            .unwrap()
            .forget();
    }
}

impl AttemptRunner for Occupied {
    fn run(&self, mut attempt: AttemptContext) -> BoxFuture<'static, AttemptEnd> {
        let occupied = self.clone();
        async move {
            let commands = async {
                while let Some(command) = attempt.commands.recv().await {
                    attempt.updates.send_replace(command);
                }
            };
            tokio::select! {
                () = occupied.run() => {}
                () = commands => {}
            }
            AttemptEnd::Finished(String::new())
        }
        .boxed()
    }
}

impl Responder for Occupied {
    fn respond(&self, request: ReceivedRequest) -> BoxFuture<'static, Result<String, String>> {
        let occupied = self.clone();
        async move {
            if request.body == "hang" {
                occupied.run().await;
            }
            Ok(request.body)
        }
        .boxed()
    }
}

fn occupied_host(hub: &HubWithLog) -> (WorkerHost, Occupied, watch::Sender<()>) {
    let (release, released) = watch::channel(());
    let started = Arc::new(Semaphore::new(0));
    let occupied = Occupied { started, released };
    let (runner, responder) = (Arc::new(occupied.clone()), Arc::new(occupied.clone()));
    let client = hub.client.clone();
    let host = WorkerHost::start(client, &queue(), &worker_name(), runner, responder);
    (host.unwrap(), occupied, release)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_commands_arrive_while_all_slots_of_attempts_are_taken() {
    let Some(server) = Server::start() else { return };
    let world = World::with(server.hub(Limits::default()).await);
    let (host, occupied, release) = occupied_host(&world.hub);
    for batch in 0..5 {
        let ids: Vec<_> = (0..20).map(|number| format!("{batch}-{number}")).collect();
        join_all(ids.iter().map(|id| world.start_slow(id))).await;
        occupied.wait_for(20).await;
    }
    let further = world.start_slow("further").await;
    assert_eq!(further.outcome().await.unwrap(), AttemptOutcome::NotTaken);

    let running = world.get("0-0");
    running.send("a command".to_owned()).await.unwrap();
    updates(&running, "a command").await;

    let requests = requests(&world.hub);
    let started = Instant::now();
    let recipient = worker();
    let answers = (0..50).map(|number| requests.send(&recipient, number.to_string(), LIMIT));
    for (number, answer) in join_all(answers).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), number.to_string());
    }
    println!("50 requests took {:?}", started.elapsed());
    drop(release);
    host.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_start_while_all_slots_of_requests_are_taken() {
    let Some(server) = Server::start() else { return };
    let world = World::with(server.hub(Limits::default()).await);
    let (host, occupied, release) = occupied_host(&world.hub);
    let requests = requests(&world.hub);
    let recipient = worker();
    let mut pending = Vec::new();
    for _ in 0..4 {
        let batch = (0..16).map(|_| requests.start(&recipient, "hang".to_owned(), LIMIT));
        pending.extend(join_all(batch).await);
        occupied.wait_for(16).await;
    }
    let further = requests.send(&recipient, "further".to_owned(), LIMIT).await;
    assert_eq!(further, Err(RequestError::NotTaken));
    let attempt = world.start_slow("1").await;
    occupied.wait_for(1).await;
    drop(release);
    for request in pending {
        assert_eq!(request.unwrap().answer().await.unwrap(), "hang");
    }
    let finished = AttemptOutcome::Finished(String::new());
    assert_eq!(attempt.outcome().await.unwrap(), finished);
    host.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_lost_when_its_recipient_stops() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let (host, occupied, _release) = occupied_host(&hub);
    let request = requests(&hub).start(&worker(), "hang".to_owned(), LIMIT).await;
    occupied.wait_for(1).await;
    let stopped = Instant::now();
    host.stop().await.unwrap();
    println!("the recipient stopped in {:?}", stopped.elapsed());
    assert_eq!(request.unwrap().answer().await, Err(RequestError::Lost));
}
