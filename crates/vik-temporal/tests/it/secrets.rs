//! What the database of the server contains, after attempts that print their secrets everywhere.

use std::io::Read as _;
use std::path::Path;

use flate2::read::DeflateDecoder;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use vik_core::outcome::Outcome;

use crate::machines::Scene;

const SECRET: &str = "tok-4f9d1c7a2b6e8053";

/// Texts that belong into the database, so that a search which finds nothing is noticed.
const TITLE: &str = "Issue 1";

/// Prints the secret wherever Vik reads: messages, errors, the result of hooks and of checks.
fn scene(payload_key: Option<&str>) -> Option<Scene> {
    let mut scene = Scene::new("")?;
    let mut flow: Value = serde_json::from_str(&scene.workflow).unwrap();
    flow["secrets"] = json!({"TOKEN": {"file": "token"}, "PAYLOADS": {"file": "payloads"}});
    if payload_key.is_some() {
        flow["engine"]["temporal"]["payload_key"] = json!("${PAYLOADS}");
    }
    let agent = &mut flow["agents"]["a"];
    agent["command"] = json!([
        "sh",
        "-c",
        "echo \"using $TOKEN\"; echo \"no $TOKEN\" >&2; exit ${EXIT:-0}"
    ]);
    agent["secrets"] = json!(["TOKEN"]);
    let stage = &mut flow["issue"]["stages"]["work"];
    stage["prompt"] = json!("Work.");
    stage["verify"] = json!("echo \"check with $TOKEN\"; exit 1");
    stage["hooks"]["secrets"] = json!(["TOKEN"]);
    stage["hooks"]["before_run"] = json!("echo \"before with $TOKEN\"");
    scene.workflow = flow.to_string();
    for machine in ["w", "hub"] {
        let folder = scene.env.work().join(machine);
        // Only the worker has it.
        if machine == "w" {
            scene.env.write(folder.join("token"), SECRET);
        }
        scene
            .env
            .write(folder.join("payloads"), payload_key.unwrap_or("unused-unused"));
    }
    Some(scene)
}

#[test]
fn database_of_the_server_contains_no_secret() {
    let Some(scene) = scene(None) else { return };
    run(&scene);
    let texts = texts(&scene.server.database_file());
    assert!(
        texts.iter().any(|text| contains(text, TITLE)),
        "the search finds nothing"
    );
    assert!(
        texts.iter().any(|text| contains(text, "check with")),
        "the reason is not there"
    );
    let found: Vec<_> = texts.iter().filter(|text| contains(text, SECRET)).collect();
    let found: Vec<_> = found.iter().map(|text| String::from_utf8_lossy(text)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn database_of_the_server_contains_nothing_that_can_be_read_with_a_payload_key() {
    let key = "5c".repeat(32);
    let Some(scene) = scene(Some(&key)) else { return };
    run(&scene);
    let texts = texts(&scene.server.database_file());
    for text in [SECRET, TITLE, "check with", "workflow_digest", key.as_str()] {
        assert!(
            !texts.iter().any(|found| contains(found, text)),
            "`{text}` can be read"
        );
    }
}

/// Runs the attempt, whose check fails, to its end.
fn run(scene: &Scene) {
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    assert_eq!(hub.outcomes(1), [Outcome::Failed]);
    let report = &hub.attempts()[0].ended.clone().unwrap().report;
    let reason = report.reason.clone().unwrap();
    assert!(reason.contains("check with [secret TOKEN]"), "{reason}");
    hub.stop();
    worker.stop();
}

/// Returns all values of the database, and what is compressed in them.
fn texts(database: &Path) -> Vec<Vec<u8>> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    // The content of a virtual table is in others.
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'")
        .unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut texts = Vec::new();
    for table in tables {
        let mut statement = connection
            .prepare(&format!("SELECT * FROM \"{}\"", table.unwrap()))
            .unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                let value = match row.get_unwrap(column) {
                    Cell::Text(text) => text.into_bytes(),
                    Cell::Blob(blob) => blob,
                    _ => continue,
                };
                // A payload can begin anywhere.
                texts.extend((0..value.len()).filter_map(|at| inflated(&value[at..])));
                texts.push(value);
            }
        }
    }
    texts
}

/// Returns what a compressed text has at its start, if it is one.
fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    // Behind the payload there are other fields.
    let _ = DeflateDecoder::new(bytes)
        .take(1024 * 1024)
        .read_to_end(&mut text);
    (text.len() > 32).then_some(text)
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}
