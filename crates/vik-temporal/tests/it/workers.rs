use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use temporalio_client::{NamespacedClient, UntypedSignal, UntypedWorkflow, WorkflowSignalOptions};
use temporalio_common::data_converters::RawValue;
use vik_core::worker::{Presence, Revision, Worker, WorkerLabel};
use vik_proc::BootTime;
use vik_temporal::log::Limits;
use vik_temporal::workers::{
    ANNOUNCE_INTERVAL, Announcement, PresenceTracker, Table, WorkerInstance, Workers,
};

use crate::server::{Server, queue};

pub fn worker(name: &str) -> Worker {
    Worker {
        name: name.parse().unwrap(),
        labels: BTreeSet::from(["linux".parse::<WorkerLabel>().unwrap()]),
        capacity: NonZeroU32::MIN,
        revision: Revision {
            version: "1".to_owned(),
            workflow_digest: "d".to_owned(),
        },
        presence: Presence::Available,
    }
}

pub fn announced(worker: &Worker) -> Announcement {
    Announcement {
        worker: worker.clone(),
        instance: WorkerInstance::of_this_process("host".to_owned(), &std::env::temp_dir()).unwrap(),
        is_last: false,
    }
}

async fn wait_for(workers: &Workers, is_expected: impl Fn(&Table) -> bool) -> Table {
    loop {
        let table = workers.table().await.unwrap();
        if is_expected(&table) {
            return table;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_reads_what_workers_announce() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let workers = Workers::new(hub.client.clone(), queue());
    assert_eq!(workers.table().await.unwrap(), Table::default());
    workers.announce(&announced(&worker("a"))).await.unwrap();
    workers.announce(&announced(&worker("b"))).await.unwrap();
    let draining = Worker {
        presence: Presence::Draining,
        ..worker("a")
    };
    workers.announce(&announced(&draining)).await.unwrap();
    let lost = Worker {
        presence: Presence::Lost,
        ..worker("a")
    };
    assert!(workers.announce(&announced(&lost)).await.is_err());
    let is_expected = |table: &Table| table.rows.values().any(|row| row.count == 2);
    let table = wait_for(&workers, is_expected).await;
    let mut tracker = PresenceTracker::new(ANNOUNCE_INTERVAL * 5 / 2);
    let present = tracker.observe(&table, BootTime::now());
    assert_eq!(present, [draining, worker("b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_waits_for_its_name_after_a_restart_of_its_machine_unless_the_other_one_is_there() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let workers = Workers::new(hub.client.clone(), queue());
    let running = announced(&worker("a"));
    let before = Announcement {
        instance: WorkerInstance {
            boot: "before".to_owned(),
            ..running.instance.clone()
        },
        ..running.clone()
    };
    assert_eq!(workers.take_name(&running).await.unwrap(), None);
    let waiting = workers.take_name(&before);
    let announcing = async {
        // It is a clone if the worker announces itself while it waits.
        tokio::time::sleep(Duration::from_millis(500)).await;
        workers.announce(&running).await.unwrap();
    };
    let (other, ()) = tokio::join!(waiting, announcing);
    assert_eq!(other.unwrap(), Some(running.instance.clone()));
    let last = Announcement {
        is_last: true,
        ..running
    };
    let ending = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        workers.announce(&last).await.unwrap();
    };
    let (other, ()) = tokio::join!(workers.take_name(&before), ending);
    assert_eq!(other.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn announcement_that_cannot_be_read_does_not_stop_the_table() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let workers = Workers::new(hub.client.clone(), queue());
    workers.announce(&announced(&worker("a"))).await.unwrap();
    let mut hostile = serde_json::to_value(announced(&worker("b"))).unwrap();
    hostile["worker"]["name"] = "../b".into();
    let mut newer = serde_json::to_value(announced(&worker("c"))).unwrap();
    newer["worker"]["presence"] = "resting".into();
    let handle = hub
        .client
        .get_workflow_handle::<UntypedWorkflow>(queue().workers());
    for announcement in [hostile, newer, serde_json::Value::Null] {
        let converter = hub.client.data_converter().payload_converter();
        let payload = RawValue::from_value(&announcement, converter);
        let signal = UntypedSignal::new("announce");
        let options = WorkflowSignalOptions::default();
        handle.signal(signal, payload, options).await.unwrap();
    }
    workers.announce(&announced(&worker("d"))).await.unwrap();
    let table = wait_for(&workers, |table| table.rows.len() == 2).await;
    let names: Vec<_> = table.rows.keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["a", "d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn table_survives_a_new_history_without_losing_an_announcement() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let workers = Workers::new(hub.client.clone(), queue());
    let announce = |number: u64| {
        let workers = workers.clone();
        async move {
            for _ in 0..70 {
                workers
                    .announce(&announced(&worker(&number.to_string())))
                    .await
                    .unwrap();
            }
        }
    };
    let tasks: Vec<_> = (0..10).map(|worker| tokio::spawn(announce(worker))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let is_complete = |table: &Table| table.rows.values().all(|row| row.count == 70);
    let table = wait_for(&workers, is_complete).await;
    assert_eq!(table.rows.len(), 10);
    let events = server.history_length(&hub.client, &queue().workers()).await;
    assert!(events < 2_000, "{events}");
}
