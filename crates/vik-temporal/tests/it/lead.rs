use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use temporalio_client::Client;
use vik_temporal::hub::Hub;
use vik_temporal::lead::{MIN_LEAD_TIMEOUT, Standing, leader};
use vik_temporal::log::Limits;

use crate::child::{Process, print};
use crate::request;
use crate::server::{HubWithLog, Server, queue};

/// The role `hub` of a child.
pub async fn run_hub(client: Client) {
    let HubWithLog { mut hub, .. } = HubWithLog::start(client, Limits::default()).await;
    loop {
        print("follows");
        hub.leadership.acquired().await;
        print("leads");
        hub.leadership.lost().await;
    }
}

async fn acquired(hub: &mut Hub) -> Duration {
    let started = Instant::now();
    hub.leadership.acquired().await;
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_hubs_leads_until_it_stops() {
    let Some(server) = Server::start() else { return };
    let client = server.client().await;
    let leader = async || leader(&client, &queue()).await.unwrap();
    assert_eq!(leader().await, None);
    let mut first = server.hub(Limits::default()).await.hub;
    first.leadership.acquired().await;
    assert_eq!(leader().await, Some(first.id));
    let responder = Arc::new(request::Scripted("second"));
    let second = Hub::start(server.client().await, &queue(), MIN_LEAD_TIMEOUT, responder).await;
    let mut second = second.unwrap();
    assert!(!second.leadership.standing().is_leading());
    let mut leadership = first.leadership.clone();
    first.stop().await.unwrap();
    leadership.lost().await;
    let took = acquired(&mut second).await;
    println!("took over from a hub that stopped in {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(leader().await, Some(second.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_hub_leads_soon_after_a_kill() {
    let Some(server) = Server::start() else { return };
    let mut first = Process::start("hub", "", server.port());
    first.wait_for("leads");
    let mut second = server.hub(Limits::default()).await;
    first.kill();
    let took = acquired(&mut second.hub).await;
    let started = Instant::now();
    let tenure = second.log.take_term(1).await.unwrap();
    println!(
        "took over from a killed hub in {took:?}, its term {:?} later",
        started.elapsed()
    );
    assert_eq!(tenure.term, 1);
    assert_eq!(server.attempt_of_lead().await, 2);
    // Five seconds on a machine with nothing else to do.
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_hub_knows_that_it_leads_no_longer_when_it_wakes() {
    let Some(server) = Server::start() else { return };
    let first = Process::start("hub", "", server.port());
    first.wait_for("leads");
    let mut second = server.hub(Limits::default()).await.hub;
    first.signal(Signal::SIGSTOP);
    let took = acquired(&mut second).await;
    println!("took over from a frozen hub in {took:?}");
    // The server did not give it to the frozen hub again.
    assert_eq!(server.attempt_of_lead().await, 2);
    first.signal(Signal::SIGCONT);
    let woke = first.wait_for("follows");
    assert!(woke < Duration::from_secs(2), "{woke:?}");
    assert!(second.leadership.standing().is_leading());
    assert_eq!(first.printed(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_leads_no_longer_without_a_server() {
    let Some(mut server) = Server::start() else { return };
    let mut hub = server.hub(Limits::default()).await.hub;
    hub.leadership.acquired().await;
    server.kill();
    let started = Instant::now();
    hub.leadership.lost().await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    server.restart();
    let took = acquired(&mut hub).await;
    println!("leads {took:?} after the server was back");
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_leads_with_the_heartbeat_timeout_of_its_own_workflow() {
    let Some(server) = Server::start() else { return };
    let first = server.hub(Limits::default()).await.hub;
    let responder = Arc::new(request::Scripted("second"));
    let longer = MIN_LEAD_TIMEOUT * 10;
    let second = Hub::start(server.client().await, &queue(), longer, responder).await;
    let mut hubs = [first, second.unwrap()];
    // Each of them may have asked for its timeout, and one of them leads.
    let [first, second] = &mut hubs;
    tokio::select! {
        _ = acquired(first) => {}
        _ = acquired(second) => {}
    }
    let [first, mut second] = hubs;
    first.stop().await.unwrap();
    acquired(&mut second).await;
    let Standing::Leading { until } = second.leadership.standing() else {
        panic!("it leads no longer");
    };
    assert!(until.remaining() > MIN_LEAD_TIMEOUT, "{:?}", until.remaining());
}
