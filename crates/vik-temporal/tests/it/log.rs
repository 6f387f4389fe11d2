use std::time::{Duration, Instant};

use vik_temporal::log::{AppendError, Appender, Entry, Follower, Limits, LogError, ReadError, Tenure};

use crate::attempt::noise;
use crate::server::{Server, queue};

fn limits(updates: u32) -> Limits {
    Limits {
        updates,
        ..Limits::default()
    }
}

async fn append_all(appender: &Appender, entries: impl IntoIterator<Item = String>) {
    let appended: Vec<_> = entries.into_iter().map(|entry| appender.append(entry)).collect();
    for appended in appended {
        appended.await.unwrap();
    }
}

async fn read(follower: &mut Follower, count: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    while entries.len() < count {
        entries.push(follower.next().await.unwrap());
    }
    entries
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.text.as_str()).collect()
}

fn numbered(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| format!("entry {number}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn log_has_one_order_and_refuses_the_older_of_two_leaders() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let old: Tenure = hub.log.take_term(1).await.unwrap();
    let old_appender = hub.log.appender(&old);
    append_all(&old_appender, numbered(0..20)).await;

    let new = hub.log.take_term(1).await.unwrap();
    assert_eq!((new.term, new.position), (old.term + 1, 20));
    let refused = old_appender.append("late".to_owned()).await;
    assert_eq!(refused, Err(AppendError::Superseded { term: new.term }));
    let refused = old_appender.append("later".to_owned()).await;
    assert_eq!(refused, Err(AppendError::Superseded { term: new.term }));

    let mut follower = hub.log.follow(None).await.unwrap();
    let mut before = Vec::new();
    while let Some(entry) = follower.next_before(&new).await.unwrap() {
        before.push(entry.text);
    }
    assert_eq!(before, numbered(0..20));

    append_all(&hub.log.appender(&new), numbered(20..30)).await;
    let entries = read(&mut follower, 10).await;
    assert_eq!(texts(&entries), numbered(20..30));
    assert_eq!(entries[0].term, new.term);
    let database = String::from_utf8_lossy(&server.database()).into_owned();
    assert!(database.contains("vik/test/log/1"));
    assert!(!database.contains("entry 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_continues_in_new_segments_and_after_compaction() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(limits(4)).await;
    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    let mut follower = hub.log.follow(None).await.unwrap();
    let mut behind = hub.log.follow(None).await.unwrap();
    let first = {
        append_all(&appender, ["entry 0".to_owned()]).await;
        behind.next().await.unwrap()
    };
    for number in 1..12 {
        append_all(&appender, numbered(number..number + 1)).await;
    }
    let entries = read(&mut follower, 12).await;
    assert_eq!(texts(&entries), numbered(0..12));
    assert!(follower.segment() > 2, "{}", follower.segment());

    // A reader continues at each of its cursors.
    for entry in [&entries[2], &entries[7], &entries[11]] {
        let mut resumed = hub.log.follow(Some(entry.cursor.clone())).await.unwrap();
        append_all(&appender, ["more".to_owned()]).await;
        let seen = entries.iter().position(|other| other == entry).unwrap();
        let expected = &texts(&entries)[seen + 1..];
        assert_eq!(texts(&read(&mut resumed, 11 - seen).await), expected);
    }

    // The end of the log is found behind sealed segments.
    let last = hub.log.take_term(1).await.unwrap();
    assert_eq!((last.term, last.position), (2, 15));
    let appender = hub.log.appender(&last);

    // The state is written again; what came before is removed.
    let index = appender.seal().await.unwrap();
    append_all(&appender, ["state".to_owned()]).await;
    hub.log.compacted(index).await.unwrap();
    hub.log.compacted(index).await.unwrap();
    let mut new = hub.log.follow(None).await.unwrap();
    assert_eq!(new.next().await.unwrap().text, "state");
    let next = hub.log.take_term(1).await.unwrap();
    assert_eq!(next.term, 3);
    // Segments that are closed can be read until the server deletes them.
    let mut resumed = hub.log.follow(Some(first.cursor)).await.unwrap();
    assert_eq!(resumed.next().await.unwrap().text, "entry 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn index_survives_new_histories() {
    let Some(server) = Server::start() else { return };
    let limits = Limits {
        updates: 3,
        index_events: 30,
        ..Limits::default()
    };
    let hub = server.hub(limits).await;
    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    let mut last = hub.log.index().await.unwrap();
    for number in 0..8 {
        append_all(&appender, numbered(number..number + 1)).await;
        let index = appender.seal().await.unwrap();
        append_all(&appender, ["state".to_owned()]).await;
        assert_eq!(hub.log.index().await.unwrap(), last);
        hub.log.compacted(index).await.unwrap();
        assert_eq!(hub.log.index().await.unwrap(), index);
        assert!(index.first > last.first);
        last = index;
    }
    // The signal to the last segment is still under way, perhaps.
    let events = server.history_length(&hub.client, &queue().log()).await;
    assert!(events < 60, "{events}");
    assert!(server.runs(&hub.client, &queue().log()).await.len() > 2);
    let mut new = hub.log.follow(None).await.unwrap();
    assert_eq!(new.next().await.unwrap().text, "state");
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_detects_segments_that_were_removed() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    append_all(&appender, numbered(0..3)).await;
    let mut follower = hub.log.follow(None).await.unwrap();
    let entries = read(&mut follower, 3).await;
    let index = appender.seal().await.unwrap();
    append_all(&appender, ["state".to_owned()]).await;
    hub.log.compacted(index).await.unwrap();
    server.delete(&hub.client, &queue().segment(1)).await;

    let mut behind = hub.log.follow(Some(entries[1].cursor.clone())).await.unwrap();
    let gap = behind.next().await.unwrap_err();
    assert!(
        matches!(gap, LogError::Read(ReadError::Gap { read: 2, starts: 3 })),
        "{gap}"
    );
    let mut at_end = hub.log.follow(Some(entries[2].cursor.clone())).await.unwrap();
    assert_eq!(at_end.next().await.unwrap().text, "state");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_entry_is_read_as_it_was_written() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    let large = noise(3 * 1024 * 1024);
    append_all(&appender, ["a".to_owned(), large.clone(), "b".to_owned()]).await;
    let mut follower = hub.log.follow(None).await.unwrap();
    let entries = read(&mut follower, 3).await;
    assert_eq!(texts(&entries), ["a", &large, "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn append_survives_a_kill_of_the_server_and_happens_once() {
    let Some(mut server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    append_all(&appender, numbered(0..5)).await;
    let mut follower = hub.log.follow(None).await.unwrap();
    assert_eq!(texts(&read(&mut follower, 5).await), numbered(0..5));
    let waiting: Vec<_> = numbered(5..40)
        .into_iter()
        .map(|entry| appender.append(entry))
        .collect();
    server.kill();
    let more: Vec<_> = numbered(40..50)
        .into_iter()
        .map(|entry| appender.append(entry))
        .collect();
    server.restart();
    for appended in waiting.into_iter().chain(more) {
        appended.await.unwrap();
    }
    assert_eq!(texts(&read(&mut follower, 45).await), numbered(5..50));
    let mut again = hub.log.follow(None).await.unwrap();
    assert_eq!(texts(&read(&mut again, 50).await), numbered(0..50));
    let end = hub.log.take_term(1).await.unwrap();
    assert_eq!(end.position, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_hub_extends_the_log_when_the_first_has_stopped() {
    let Some(server) = Server::start() else { return };
    let first = server.hub(Limits::default()).await;
    let tenure = first.log.take_term(1).await.unwrap();
    append_all(&first.log.appender(&tenure), numbered(0..3)).await;
    let second = server.hub(Limits::default()).await;
    first.hub.stop().await.unwrap();
    let started = Instant::now();
    let tenure = second.log.take_term(1).await.unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(tenure.position, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_with_another_key_cannot_read_the_log() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let tenure = hub.log.take_term(1).await.unwrap();
    append_all(&hub.log.appender(&tenure), numbered(0..1)).await;
    let client = server.client_with_key(&[8; 32]).await;
    let opened = vik_temporal::log::Log::open(client, queue(), Limits::default()).await;
    let error = opened.unwrap_err().to_string();
    assert!(
        error.contains("damaged, or was encrypted with another key"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: p50 and p95 of 200 appends of 2 KB"]
async fn measure_appends() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    let mut follower = hub.log.follow(None).await.unwrap();
    let mut appends = Vec::new();
    let mut reads = Vec::new();
    for number in 0..200 {
        let text = format!("{number:04}").repeat(512);
        let started = Instant::now();
        appender.append(text.clone()).await.unwrap();
        appends.push(started.elapsed());
        assert_eq!(follower.next().await.unwrap().text, text);
        reads.push(started.elapsed());
    }
    for (name, mut times) in [("append", appends), ("read by a follower", reads)] {
        times.sort();
        println!("{name}: p50 {:?}, p95 {:?}", times[100], times[190]);
    }
}
