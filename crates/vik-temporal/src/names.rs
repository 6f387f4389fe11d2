//! Ids of workflows and names of task queues.
//!
//! | name | workflow or task queue |
//! | --- | --- |
//! | `vik/QUEUE` | task queue of the hubs, which run all workflows |
//! | `vik/QUEUE/hub` | the workflow that keeps one hub leading |
//! | `vik/QUEUE/log` | the index of the log: its first segment |
//! | `vik/QUEUE/log/N` | segment N of the log |
//! | `vik/QUEUE/workers` | the table of workers |
//! | `vik/QUEUE/worker/NAME` | task queue of a worker, for attempts |
//! | `vik/QUEUE/worker/NAME/commands` | task queue of a worker, for commands to its attempts |
//! | `vik/QUEUE/worker/NAME/requests` | task queue of a worker, for requests |
//! | `vik/QUEUE/at/ID` | task queue of one hub, for requests |
//! | `vik/QUEUE/request/ID` | a request to a worker or a hub |
//! | `vik/QUEUE/ISSUE/ATTEMPT` | an attempt |

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;
use vik_core::worker::WorkerName;

const MAX_QUEUE_BYTES: usize = 64;

/// Longer encoded parts end with a digest, so that an id stays below the limit of the server, which
/// is 1,000 bytes.
const MAX_PART_BYTES: usize = 200;

/// The parts after `vik/QUEUE` that no issue may have.
const RESERVED: &[&str] = &["at", "hub", "log", "request", "worker", "workers"];

/// The name of a queue of issues, from which all ids of its workflows are made.
///
/// # Examples
///
/// ```
/// use vik_temporal::names::Queue;
///
/// let queue = Queue::new("team-a")?;
/// assert_eq!(queue.attempt("VIK-7", "3"), "vik/team-a/VIK-7/3");
/// assert_eq!(queue.attempt("a/b", "1"), "vik/team-a/a%2Fb/1");
/// # Ok::<(), vik_temporal::names::InvalidQueue>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue(String);

/// Identifies a hub from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HubId(Uuid);

impl HubId {
    /// Returns an id that no other hub has.
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for HubId {
    type Err = uuid::Error;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        id.parse().map(Self)
    }
}

/// The name of a queue cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue name `{0}` is invalid: use 1 to {MAX_QUEUE_BYTES} letters, digits, `-`, `_` or `.`")]
pub struct InvalidQueue(String);

impl Queue {
    /// Returns the queue of this name.
    ///
    /// # Errors
    ///
    /// Returns an error unless the name has 1 to 64 ASCII letters, digits, `-`, `_` and `.`.
    pub fn new(name: &str) -> Result<Self, InvalidQueue> {
        let is_valid = !name.is_empty() && name.len() <= MAX_QUEUE_BYTES && name.bytes().all(is_plain);
        if is_valid {
            Ok(Self(name.to_owned()))
        } else {
            Err(InvalidQueue(name.escape_debug().take(80).collect()))
        }
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the task queue of the hubs.
    pub fn hubs(&self) -> String {
        format!("vik/{}", self.0)
    }

    /// Returns the id of the workflow that keeps one hub leading.
    pub fn hub(&self) -> String {
        format!("vik/{}/hub", self.0)
    }

    /// Returns the id of the workflow with the table of workers.
    pub fn workers(&self) -> String {
        format!("vik/{}/workers", self.0)
    }

    /// Returns the id of the workflow that has the number of the first segment of the log.
    pub fn log(&self) -> String {
        format!("vik/{}/log", self.0)
    }

    /// Returns the id of the workflow that is a segment of the log.
    pub fn segment(&self, number: u64) -> String {
        format!("vik/{}/log/{number}", self.0)
    }

    /// Returns the task queue of a worker for its attempts.
    pub fn worker(&self, name: &WorkerName) -> String {
        format!("vik/{}/worker/{name}", self.0)
    }

    /// Returns the task queue of a worker for the commands to its attempts.
    pub fn worker_commands(&self, name: &WorkerName) -> String {
        format!("vik/{}/worker/{name}/commands", self.0)
    }

    /// Returns the task queue of a worker for requests to it.
    pub fn worker_requests(&self, name: &WorkerName) -> String {
        format!("vik/{}/worker/{name}/requests", self.0)
    }

    /// Returns the task queue of one hub for requests to it.
    pub fn hub_requests(&self, id: HubId) -> String {
        format!("vik/{}/at/{id}", self.0)
    }

    /// Returns the id of the workflow of a request.
    pub fn request(&self, id: Uuid) -> String {
        format!("vik/{}/request/{id}", self.0)
    }

    /// Returns the id of the workflow of an attempt. Different pairs have different ids.
    pub fn attempt(&self, issue: &str, attempt: &str) -> String {
        format!("vik/{}/{}/{}", self.0, encode(issue), encode(attempt))
    }
}

/// Returns the name with which a hub presents itself to the server.
pub fn hub_identity(host: &str, pid: u32) -> String {
    format!("{HUB_PREFIX}{host} ({pid})")
}

/// Returns the host in the name of a hub, or any other name.
pub(crate) fn host_in(identity: &str) -> &str {
    let name = identity.strip_prefix(HUB_PREFIX).unwrap_or(identity);
    name.rsplit_once(" (").map_or(name, |(host, _)| host)
}

const HUB_PREFIX: &str = "vik hub ";

/// Returns the id of a segment beside the one with the id `segment`, or of the first one below the
/// index `vik/QUEUE/log`.
pub(crate) fn sibling_segment(segment: &str, number: u64) -> String {
    let log = match segment.rsplit_once('/') {
        Some((log, last)) if last.bytes().all(|byte| byte.is_ascii_digit()) => log,
        _ => segment,
    };
    format!("{log}/{number}")
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Encodes any text as a part of an id: injective, and never empty, reserved or with a slash.
///
/// An escape is `%` with two hexadecimal digits. `%` alone is the empty text, and `%~` precedes the
/// digest of a long one, so neither can be the encoding of another text.
fn encode(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let is_reserved = RESERVED.contains(&text);
    let mut encoded = String::with_capacity(text.len());
    for (index, byte) in text.bytes().enumerate() {
        if is_plain(byte) && !(is_reserved && index == 0) {
            encoded.push(char::from(byte));
        } else {
            push_hex(&mut encoded, "%", byte);
        }
    }
    if encoded.len() <= MAX_PART_BYTES {
        return encoded;
    }
    let digest = Sha256::digest(text.as_bytes());
    encoded.truncate(MAX_PART_BYTES - 2 - 2 * digest.len());
    encoded.push_str("%~");
    for byte in digest {
        push_hex(&mut encoded, "", byte);
    }
    encoded
}

fn push_hex(text: &mut String, prefix: &str, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{prefix}{byte:02X}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    fn queue() -> Queue {
        Queue::new("q").unwrap()
    }

    #[test]
    fn queue_refuses_names_that_would_change_an_id() {
        for name in ["", "a/b", "a b", "ä", "a%", &"x".repeat(65)] {
            assert!(Queue::new(name).is_err(), "{name}");
        }
        assert_eq!(Queue::new("team-a_1.x").unwrap().hub(), "vik/team-a_1.x/hub");
    }

    #[test]
    fn attempt_of_a_reserved_issue_is_no_other_workflow() {
        assert_eq!(queue().segment(3), "vik/q/log/3");
        assert_eq!(queue().attempt("log", "3"), "vik/q/%6Cog/3");
        assert_ne!(
            queue().attempt("worker", "a"),
            queue().worker(&"a".parse().unwrap())
        );
        assert_eq!(
            queue().request(Uuid::nil()),
            format!("vik/q/request/{}", Uuid::nil())
        );
        assert_ne!(
            queue().attempt("request", &Uuid::nil().to_string()),
            queue().request(Uuid::nil())
        );
        let hub = HubId::random();
        assert_ne!(queue().attempt("at", &hub.to_string()), queue().hub_requests(hub));
    }

    #[test]
    fn task_queues_are_different() {
        let requests = WorkerName::from_str("requests").unwrap();
        let commands = WorkerName::from_str("commands").unwrap();
        let queues = [
            queue().hubs(),
            queue().worker(&requests),
            queue().worker(&commands),
            queue().worker_requests(&requests),
            queue().worker_requests(&commands),
            queue().worker_commands(&requests),
            queue().worker_commands(&commands),
            queue().hub_requests(HubId::random()),
            queue().hub_requests(HubId::random()),
        ];
        let different: BTreeSet<_> = queues.iter().collect();
        assert_eq!(different.len(), queues.len(), "{queues:?}");
    }

    #[test]
    fn attempt_of_a_hostile_issue_has_one_part_per_text() {
        assert_eq!(queue().attempt("../x", "1"), "vik/q/..%2Fx/1");
        assert_eq!(queue().attempt("", ""), "vik/q/%/%");
        assert_eq!(queue().attempt("a%2Fb", "1"), "vik/q/a%252Fb/1");
        let long = queue().attempt(&"ä".repeat(5000), &"/".repeat(5000));
        assert!(long.len() < 500, "{}", long.len());
    }

    #[test]
    fn sibling_segment_is_in_the_same_log() {
        assert_eq!(sibling_segment("vik/q/log/9", 10), "vik/q/log/10");
        assert_eq!(sibling_segment("vik/q/log", 1), "vik/q/log/1");
        assert_eq!(sibling_segment("vik/7/log", 1), "vik/7/log/1");
    }

    proptest! {
        #[test]
        fn encoded_texts_differ_where_texts_differ(a in any::<String>(), b in any::<String>()) {
            prop_assert_eq!(encode(&a) == encode(&b), a == b);
            prop_assert!(encode(&a).len() <= MAX_PART_BYTES);
            prop_assert!(!encode(&a).contains('/'));
        }

        #[test]
        fn encoded_long_texts_differ_in_their_ends(a in "[a-zA-Z]{0,9}", b in "[a-zA-Z]{0,9}") {
            let long = "ü/".repeat(300);
            prop_assert_eq!(encode(&format!("{long}{a}")) == encode(&format!("{long}{b}")), a == b);
        }
    }
}
