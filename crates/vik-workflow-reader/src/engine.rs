//! `engine`, and `where` of stages and agents: the keys of a workflow on several machines.

use std::collections::BTreeSet;

use schemars::{Schema, SchemaGenerator, json_schema};
use vik_core::duration::Span;
use vik_core::worker::WorkerLabel;
use vik_core::workflow::{self, ClientCertificate, EngineTls, SecretRef, ServerAddress, TaskQueueName};
use vik_yaml::{Diagnostic, Node, join};

use super::check::Check;
use super::decode::{Cx, Decode};
use super::file::File;
use super::section::section;
use super::values::{PathText, Text, list};

/// The maximum number of labels of one `where`.
const MAX_LABELS: usize = 64;

section! {
    /// What coordinates several machines that work on one queue of issues: hubs, which are started
    /// with `vik run --role hub`, and workers, which are started with `vik worker`. Both need a vik
    /// with the cargo feature `temporal`. Without `engine`, all work is done on this machine. A change
    /// requires a restart.
    struct Engine: strict;
    /// A Temporal server, and what belongs to this workflow on it.
    "temporal" temporal: required Temporal;
    instead {
        "address" | "host" | "url" => "use `engine.temporal.address`",
        "task_queue" => "use `engine.temporal.task_queue`",
        "type" | "kind" => "write `temporal:` and its keys",
    }
}

section! {
    /// A Temporal server, and what belongs to this workflow on it.
    struct Temporal: strict;
    /// The address of the server, such as `temporal.example.com:7233`: host and port, without a
    /// scheme.
    "address" address: required Address;
    /// The namespace on the server.
    "namespace" namespace: defaults Text = "default".to_owned();
    /// The name that all machines of this workflow have in common: 1 to 64 of the characters `A-Z
    /// a-z 0-9 . _ -`.
    "task_queue" task_queue: required TaskQueue;
    /// The certificates of the connection; `{}` for an encrypted one with the authorities of the
    /// system. Default: not encrypted, except with `api_key`.
    "tls" tls: optional Tls;
    /// The API key that the server requires, as `${NAME}` with the name of one of `secrets`.
    "api_key" api_key: optional Reference;
    /// The key that encrypts what the server stores, as `${NAME}` with the name of one of `secrets`.
    /// Its value has 32 bytes, in base64 or as hexadecimal digits. All machines need the same one.
    /// Default: not encrypted.
    "payload_key" payload_key: optional Reference;
    /// How long a worker may be silent before it has lost its attempts: 3s to 5m.
    "heartbeat" heartbeat: defaults Heartbeat = Span::secs(30);
    instead {
        "host" | "url" | "server" | "target" => "did you mean `address`?",
        "queue" | "name" => "did you mean `task_queue`?",
        "key" | "token" => "did you mean `api_key`?",
        "encryption_key" | "codec_key" => "did you mean `payload_key`?",
        "heartbeat_timeout" | "lease" => "did you mean `heartbeat`?",
    }
}

section! {
    /// The certificates of the connection. Files are relative to the workflow file.
    struct Tls: strict;
    /// The certificates of the authorities that are trusted, as a PEM file. Default: those of the
    /// system.
    "ca_file" ca_file: optional PathText;
    /// The certificate of this client, as a PEM file. Requires `key_file`.
    "cert_file" cert_file: optional PathText;
    /// The private key of this client, as a PEM file. Requires `cert_file`.
    "key_file" key_file: optional PathText;
    /// The name in the certificate of the server. Default: the host of the address.
    "server_name" server_name: optional Text;
    instead {
        "ca" | "ca_cert" => "did you mean `ca_file`?",
        "cert" | "certificate" => "did you mean `cert_file`?",
        "key" | "private_key" => "did you mean `key_file`?",
        "domain" | "sni" => "did you mean `server_name`?",
    }
}

section! {
    /// The workers that attempts may run on. Requires `engine`.
    struct Where: strict;
    /// Labels that a worker must all have, such as `gpu`; those of the stage and of its agent
    /// together. At most 64.
    "labels" labels: defaults WorkerLabels = BTreeSet::new();
    instead {
        "label" => "did you mean `labels`?",
        "worker" | "host" | "machine" => "give the worker a label, and name it in `labels`",
    }
}

/// The address of the server, `host:port`.
pub(crate) struct Address;

impl Decode for Address {
    type Value = ServerAddress;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<ServerAddress> {
        let text = Text::decode(node, cx)?;
        if let Ok(address) = ServerAddress::try_from(text) {
            return Some(address);
        }
        // It may contain credentials, so the message does not quote it.
        let message = "invalid address of a Temporal server";
        let hint = "write the host and the port without a scheme: `temporal.example.com:7233`";
        cx.refuse(cx.error("bad_engine", node, message).hint(hint))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$" })
    }
}

/// The name that the machines of a workflow share.
pub(crate) struct TaskQueue;

impl Decode for TaskQueue {
    type Value = TaskQueueName;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<TaskQueueName> {
        let text = Text::decode(node, cx)?;
        match TaskQueueName::try_from(text.clone()) {
            Ok(name) => Some(name),
            Err(_) => {
                let hint = "use 1 to 64 of the characters `A-Z a-z 0-9 . _ -`";
                cx.refuse_text("bad_engine", node, ("invalid name of a task queue", &text), hint)
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[A-Za-z0-9._-]{1,64}$" })
    }
}

/// A secret by its name, `${NAME}`.
pub(crate) struct Reference;

impl Decode for Reference {
    type Value = SecretRef;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<SecretRef> {
        let scalar = cx.scalar(node, "`${NAME}` with the name of a secret")?;
        if let Ok(secret) = SecretRef::try_from(scalar.text.clone()) {
            return Some(secret);
        }
        // It is probably a secret, so the message does not quote it.
        let message = "the value of a secret is never in the file";
        let hint = "define the value in `secrets`, and write `${NAME}` with the name of the secret";
        cx.refuse(cx.error("bad_engine", node, message).hint(hint))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$" })
    }
}

/// The silence after which a worker has lost its attempts.
pub(crate) struct Heartbeat;

impl Decode for Heartbeat {
    type Value = Span;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Span> {
        let span = Span::decode(node, cx)?;
        let (min, max) = (
            workflow::Temporal::MIN_HEARTBEAT,
            workflow::Temporal::MAX_HEARTBEAT,
        );
        if (min..=max).contains(&span) {
            return Some(span);
        }
        let message = format!("expected a duration from {min} to {max}");
        cx.refuse(cx.error("out_of_range", node, message))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Span::schema(generator)
    }
}

/// `where.labels`: labels of workers.
pub(crate) struct WorkerLabels;

impl Decode for WorkerLabels {
    type Value = BTreeSet<WorkerLabel>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self::Value> {
        let items = list(node, cx, "a list of labels", "[gpu, linux]")?;
        if items.len() > MAX_LABELS {
            let message = format!("expected at most {MAX_LABELS} labels");
            return cx.refuse(cx.error("out_of_range", node, message));
        }
        let label = |item| {
            let text = Text::decode(item, cx)?;
            if let Ok(label) = text.parse::<WorkerLabel>() {
                return Some(label);
            }
            let hint = "use 1 to 64 letters, digits, `.`, `_` and `-`, and start with a letter or a digit";
            cx.refuse_text("bad_where", item, ("invalid label", &text), hint)
        };
        Some(items.iter().filter_map(label).collect())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let item = json_schema!({ "type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" });
        json_schema!({ "type": "array", "maxItems": MAX_LABELS, "items": item })
    }
}

/// Returns the secrets of the engine, each with its path.
pub(crate) fn secrets(file: &File) -> impl Iterator<Item = (String, String)> {
    let temporal = file.engine.as_ref().and_then(|engine| engine.temporal.as_ref());
    let keys = temporal.into_iter().flat_map(|temporal| {
        [
            ("api_key", &temporal.api_key),
            ("payload_key", &temporal.payload_key),
        ]
    });
    keys.filter_map(|(key, secret)| {
        let secret = secret.as_ref()?;
        Some((join("engine.temporal", key), secret.name().to_owned()))
    })
}

impl Check<'_> {
    /// Builds the engine; `None` if there is none, or it is invalid, which was reported.
    pub(super) fn engine(&mut self, section: Option<Engine>) -> Option<workflow::Engine> {
        let temporal = section?.temporal?;
        Some(workflow::Engine::Temporal(workflow::Temporal {
            tls: temporal.tls.map(|tls| self.engine_tls(tls)),
            address: temporal.address?,
            namespace: temporal.namespace,
            task_queue: temporal.task_queue?,
            api_key: temporal.api_key,
            payload_key: temporal.payload_key,
            heartbeat: temporal.heartbeat,
        }))
    }

    fn engine_tls(&mut self, tls: Tls) -> EngineTls {
        let at = |key: &str| join("engine.temporal.tls", key);
        for (key, other) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
            if !self.places.is_absent(&at(key)) && self.places.is_absent(&at(other)) {
                let message = format!("`{key}` needs a `{other}`");
                let hint = "a client needs a certificate and its private key";
                self.report_at_key(Diagnostic::error("bad_engine", at(key), message).hint(hint));
            }
        }
        let client = tls.cert_file.zip(tls.key_file);
        EngineTls {
            ca_file: tls.ca_file,
            server_name: tls.server_name,
            client: client.map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file }),
        }
    }

    /// Returns the labels of the `where` of a stage or an agent. Without an engine there are no
    /// workers that could have them, which is reported.
    pub(super) fn worker_labels(&mut self, path: &str, workers: Where) -> BTreeSet<WorkerLabel> {
        let at = join(path, "where");
        if !self.places.is_absent(&at) && self.places.is_absent("engine") {
            let message = "`where` selects workers, but the workflow has no `engine`";
            let hint = "remove `where`: without an engine, all work is done on this machine";
            self.report_at_key(Diagnostic::error("bad_where", at, message).hint(hint));
        }
        workers.labels
    }
}
