use vik_proc::BootTime;
use vik_temporal::log::Limits;
use vik_temporal::workers::{ANNOUNCE_INTERVAL, Announcement, Presence, Table, Workers};

use crate::server::{Server, queue};

fn announcement(name: &str) -> Announcement {
    Announcement {
        name: name.to_owned(),
        labels: vec!["linux".to_owned()],
        capacity: 4,
        version: "1".to_owned(),
        digest: "d".to_owned(),
        is_draining: false,
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
    workers.announce(&announcement("a")).await.unwrap();
    workers.announce(&announcement("b")).await.unwrap();
    let draining = Announcement {
        is_draining: true,
        ..announcement("a")
    };
    workers.announce(&draining).await.unwrap();
    let is_expected = |table: &Table| table.rows.get("a").is_some_and(|row| row.count == 2);
    let table = wait_for(&workers, is_expected).await;
    let mut presence = Presence::new(ANNOUNCE_INTERVAL * 5 / 2);
    let present = presence.observe(&table, BootTime::now());
    assert_eq!(present.len(), 2);
    assert!(present.iter().all(|worker| worker.is_present));
    assert_eq!(present[0].announcement, draining);
}

#[tokio::test(flavor = "multi_thread")]
async fn table_survives_a_new_history_without_losing_an_announcement() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let workers = Workers::new(hub.client.clone(), queue());
    let announce = |worker: u64| {
        let workers = workers.clone();
        async move {
            for _ in 0..70 {
                workers
                    .announce(&announcement(&worker.to_string()))
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
