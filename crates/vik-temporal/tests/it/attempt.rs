use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use nix::sys::signal::Signal;
use temporalio_client::Client;
use vik_core::worker::WorkerName;
use vik_temporal::attempt::{
    AttemptClient, AttemptContext, AttemptEnd, AttemptError, AttemptOutcome, AttemptRequest, AttemptRunner,
    Attempts, Loss, WorkerHost,
};
use vik_temporal::log::Limits;

use crate::child::{Process, print};
use crate::request;
use crate::server::{HubWithLog, PATIENCE, Server, queue, worker_name};

/// Runs attempts as their input and their commands ask for.
struct Scripted;

impl AttemptRunner for Scripted {
    fn run(&self, attempt: AttemptContext) -> BoxFuture<'static, AttemptEnd> {
        run_script(attempt).boxed()
    }
}

async fn run_script(mut attempt: AttemptContext) -> AttemptEnd {
    print("started");
    match attempt.input.as_str() {
        "quick" => return AttemptEnd::Finished("quick".to_owned()),
        "panic" => panic!("as the test wants"),
        "large" => return AttemptEnd::Finished(noise(2 * 1024 * 1024)),
        _ => {}
    }
    let mut received = Vec::new();
    attempt.updates.send_replace("spent 1".to_owned());
    loop {
        tokio::select! {
            command = attempt.commands.recv() => match command.unwrap().as_str() {
                "finish" => return AttemptEnd::Finished(received.join(",")),
                "drain" => return AttemptEnd::Drained,
                command => {
                    received.push(command.to_owned());
                    attempt.updates.send_replace(received.join(","));
                }
            },
            changed = attempt.lease.changed() => {
                changed.unwrap();
                let lease = *attempt.lease.borrow_and_update();
                if lease.is_lost {
                    print("lost");
                    return AttemptEnd::LeasePassed;
                }
                if lease.cancel_requested {
                    print("cancelled");
                    return AttemptEnd::Finished("cancelled".to_owned());
                }
            }
        }
    }
}

/// Returns text that hardly compresses.
pub fn noise(length: usize) -> String {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b' ' + u8::try_from(state >> 58).unwrap())
    })
    .take(length)
    .collect()
}

/// The role `worker` of a child.
pub async fn run_worker(client: Client, name: &WorkerName) {
    let _host = start_host(client, name);
    print("ready");
    std::future::pending::<()>().await;
}

fn start_host(client: Client, name: &WorkerName) -> WorkerHost {
    let responder = Arc::new(request::Scripted("worker"));
    WorkerHost::start(client, &queue(), name, Arc::new(Scripted), responder).unwrap()
}

pub struct World {
    pub hub: HubWithLog,
    attempts: Attempts,
}

impl World {
    async fn new(server: &Server) -> Self {
        Self::with(server.hub(Limits::default()).await)
    }

    pub fn with(hub: HubWithLog) -> Self {
        let attempts = Attempts::new(hub.client.clone(), queue());
        Self { hub, attempts }
    }

    pub fn worker(&self) -> WorkerHost {
        start_host(self.hub.client.clone(), &worker_name())
    }

    pub async fn start(&self, attempt: &str, input: &str) -> AttemptClient {
        self.attempts.start(&request(attempt, input)).await.unwrap()
    }

    /// Returns an attempt that was started before.
    pub fn get(&self, attempt: &str) -> AttemptClient {
        self.attempts.get(&request(attempt, ""))
    }

    /// Starts an attempt that sends heartbeats rarely.
    pub async fn start_slow(&self, attempt: &str) -> AttemptClient {
        let request = AttemptRequest {
            heartbeat_timeout: 2 * PATIENCE,
            ..request(attempt, "")
        };
        self.attempts.start(&request).await.unwrap()
    }
}

fn request(attempt: &str, input: &str) -> AttemptRequest {
    AttemptRequest {
        issue: "VIK-1".to_owned(),
        attempt: attempt.to_owned(),
        worker: worker_name(),
        heartbeat_timeout: Duration::from_secs(2),
        input: input.to_owned(),
    }
}

/// Waits until the server has these updates.
pub async fn updates(attempt: &AttemptClient, expected: &str) {
    while attempt.updates().await.unwrap().as_deref() != Some(expected) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn lost(reason: Loss) -> AttemptOutcome {
    let updates = Some("spent 1".to_owned());
    AttemptOutcome::Lost { reason, updates }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_gets_commands_in_order_and_its_hub_the_result() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let worker = world.worker();
    let attempt = world.start("1", "secret input").await;
    updates(&attempt, "spent 1").await;
    for command in ["a", "b", "secret command"] {
        attempt.send(command.to_owned()).await.unwrap();
    }
    updates(&attempt, "a,b,secret command").await;
    attempt.send("finish".to_owned()).await.unwrap();
    assert_eq!(
        attempt.outcome().await.unwrap(),
        AttemptOutcome::Finished("a,b,secret command".to_owned())
    );
    assert!(matches!(
        attempt.send("late".to_owned()).await,
        Err(AttemptError::NotFound)
    ));
    assert_eq!(attempt.updates().await.unwrap(), None);
    let id = queue().attempt("VIK-1", "1");
    let events = server.history_length(&world.hub.client, &id).await;
    // However many commands it gets.
    assert!(events <= 11, "{events}");
    worker.stop().await.unwrap();
    let database = server.database();
    for secret in ["secret input", "secret command"] {
        assert!(!String::from_utf8_lossy(&database).contains(secret));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_waits_for_its_attempt_to_start() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let attempt = world.get("1");
    assert!(matches!(
        attempt.send("early".to_owned()).await,
        Err(AttemptError::NotFound)
    ));
    // No worker takes it yet.
    let attempt = world.start("1", "").await;
    let sent = tokio::spawn({
        let attempt = attempt.clone();
        async move { attempt.send("finish".to_owned()).await }
    });
    let worker = world.worker();
    let finished = AttemptOutcome::Finished(String::new());
    assert_eq!(attempt.outcome().await.unwrap(), finished);
    assert!(matches!(
        sent.await.unwrap(),
        Ok(()) | Err(AttemptError::NotFound)
    ));
    let refused = attempt.send(noise(2 * 1024 * 1024)).await;
    assert!(matches!(refused, Err(AttemptError::Command(_))), "{refused:?}");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_is_started_by_one_of_twenty_starters() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let worker = world.worker();
    let start = || {
        let attempts = world.attempts.clone();
        tokio::spawn(async move { attempts.start(&request("1", "")).await })
    };
    let tasks: Vec<_> = (0..20).map(|_| start()).collect();
    let mut started = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => started += 1,
            Err(error) => assert!(matches!(error, AttemptError::AlreadyStarted), "{error}"),
        }
    }
    assert_eq!(started, 1);
    let attempt = world.get("1");
    attempt.send("finish".to_owned()).await.unwrap();
    assert_eq!(
        attempt.outcome().await.unwrap(),
        AttemptOutcome::Finished(String::new())
    );
    let again = world.attempts.start(&request("1", "")).await;
    assert!(matches!(again, Err(AttemptError::AlreadyStarted)));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_without_a_worker_is_not_taken() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let started = Instant::now();
    let attempt = world.start("1", "").await;
    assert_eq!(attempt.outcome().await.unwrap(), AttemptOutcome::NotTaken);
    let took = started.elapsed();
    println!("not taken after {took:?}");
    assert!(took >= Duration::from_secs(3), "{took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_that_is_cancelled_before_a_worker_takes_it_is_not_started() {
    let Some(server) = Server::start() else { return };
    // No hub runs yet, so that it is cancelled before the first step of its workflow.
    let attempts = Attempts::new(server.client().await, queue());
    let early = attempts.start(&request("1", "")).await.unwrap();
    early.cancel().await.unwrap();
    let world = World::new(&server).await;
    assert_eq!(early.outcome().await.unwrap(), AttemptOutcome::Cancelled);

    let late = world.start("2", "").await;
    server
        .wait_for_event(&world.hub.client, &queue().attempt("VIK-1", "2"), 5)
        .await;
    late.cancel().await.unwrap();
    assert_eq!(late.outcome().await.unwrap(), AttemptOutcome::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_of_a_killed_worker_is_lost_with_its_updates() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let mut worker = Process::start("worker", "w", server.port());
    worker.wait_for("ready");
    let attempt = world.start("1", "").await;
    updates(&attempt, "spent 1").await;
    let killed = Instant::now();
    worker.kill();
    assert_eq!(attempt.outcome().await.unwrap(), lost(Loss::NoHeartbeat));
    println!("lost {:?} after the kill", killed.elapsed());
    assert!(
        killed.elapsed() < Duration::from_secs(5),
        "{:?}",
        killed.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_worker_ends_its_attempt_when_it_wakes() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let worker = Process::start("worker", "w", server.port());
    worker.wait_for("ready");
    let attempt = world.start("1", "").await;
    updates(&attempt, "spent 1").await;
    worker.signal(Signal::SIGSTOP);
    assert_eq!(attempt.outcome().await.unwrap(), lost(Loss::NoHeartbeat));
    worker.signal(Signal::SIGCONT);
    let woke = worker.wait_for("lost");
    println!("lost {woke:?} after it woke");
    assert!(woke < Duration::from_secs(1), "{woke:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_without_a_server_ends_its_attempt_before_the_timeout() {
    let Some(mut server) = Server::start() else { return };
    let world = World::new(&server).await;
    let worker = Process::start("worker", "w", server.port());
    worker.wait_for("ready");
    let request = AttemptRequest {
        heartbeat_timeout: Duration::from_secs(8),
        ..request("1", "")
    };
    let attempt = world.attempts.start(&request).await.unwrap();
    updates(&attempt, "spent 1").await;
    let killed = Instant::now();
    server.kill();
    worker.wait_for("lost");
    let took = killed.elapsed();
    println!("ended {took:?} after the server, with a timeout of 8 s");
    assert!(took < Duration::from_secs(7), "{took:?}");
    server.restart();
    let outcome = attempt.outcome().await.unwrap();
    assert!(matches!(outcome, AttemptOutcome::Lost { .. }), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_attempt_has_its_outcome_after_it_has_ended() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let worker = Process::start("worker", "w", server.port());
    worker.wait_for("ready");
    let attempt = world.start("1", "").await;
    updates(&attempt, "spent 1").await;
    attempt.cancel().await.unwrap();
    let outcome = attempt.outcome().await.unwrap();
    assert_eq!(outcome, AttemptOutcome::Finished("cancelled".to_owned()));
    assert!(worker.printed().contains(&"cancelled".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_of_the_worker_is_neither_a_loss_nor_a_result() {
    let Some(server) = Server::start() else { return };
    let world = World::new(&server).await;
    let worker = world.worker();
    let outcome = world.start("1", "panic").await.outcome().await.unwrap();
    assert_eq!(outcome, AttemptOutcome::Failed("the attempt panicked".to_owned()));
    let outcome = world.start("2", "large").await.outcome().await.unwrap();
    let AttemptOutcome::Failed(reason) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("the maximum is 1048576"), "{reason}");
    let refused = world.attempts.start(&request("3", &noise(2 * 1024 * 1024))).await;
    assert!(matches!(refused, Err(AttemptError::Payload(_))));

    let drained = world.start("4", "").await;
    drained.send("drain".to_owned()).await.unwrap();
    let expected = AttemptOutcome::Lost {
        reason: Loss::Drained,
        updates: None,
    };
    assert_eq!(drained.outcome().await.unwrap(), expected);
    worker.stop().await.unwrap();
}
