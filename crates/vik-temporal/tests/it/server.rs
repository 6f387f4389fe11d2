//! A server of its own for each test, which ends with the test.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::IntoRequest;
use temporalio_client::{
    Client, NamespacedClient, UntypedWorkflow, UntypedWorkflowHandle, WorkflowDescribeOptions,
    WorkflowExecutionInfo, WorkflowFetchHistoryOptions,
};
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::workflowservice::v1::DeleteWorkflowExecutionRequest;
use vik_core::worker::WorkerName;
use vik_temporal::codec::{Codec, PayloadKey};
use vik_temporal::connect::{Settings, connect};
use vik_temporal::hub::Hub;
use vik_temporal::lead::MIN_LEAD_TIMEOUT;
use vik_temporal::log::{Limits, Log};
use vik_temporal::names::Queue;

use crate::request;

/// Longer than any step of a test takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The key for payloads of all processes of the tests.
pub const KEY: &[u8] = &[7; 32];

pub struct Server {
    process: Child,
    program: String,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server, or prints why not.
    pub fn start() -> Option<Self> {
        let Ok(program) = std::env::var("VIK_TEMPORAL_BIN") else {
            println!("skipped: VIK_TEMPORAL_BIN does not name the program of a Temporal server");
            return None;
        };
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        let process = spawn(&program, port, &folder);
        Some(Self {
            process,
            program,
            port,
            folder,
        })
    }

    pub async fn client(&self) -> Client {
        self.client_with_key(KEY).await
    }

    pub async fn client_with_key(&self, key: &[u8]) -> Client {
        connect_to(self.port, key).await
    }

    /// Returns the number of events of the present run of a workflow.
    pub async fn history_length(&self, client: &Client, workflow_id: &str) -> usize {
        let handle = client.get_workflow_handle::<UntypedWorkflow>(workflow_id);
        let described = handle.describe(WorkflowDescribeOptions::default()).await;
        described.unwrap().history_length()
    }

    /// Returns how often the server has given the lead to a hub.
    pub async fn attempt_of_lead(&self) -> i32 {
        let client = self.client().await;
        let handle = client.get_workflow_handle::<UntypedWorkflow>(queue().hub());
        let described = handle.describe(WorkflowDescribeOptions::default()).await;
        described.unwrap().into_raw().pending_activities[0].attempt
    }

    /// Returns the ids of the runs of a workflow, from the first one to the present one.
    pub async fn runs(&self, client: &Client, workflow_id: &str) -> Vec<String> {
        let mut runs = Vec::new();
        let mut earlier = String::new();
        loop {
            let handle = of_run(client, workflow_id, &earlier);
            let mut history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
            let first = history.next().await.unwrap().unwrap();
            let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) = first.attributes else {
                panic!("{first:?}")
            };
            runs.insert(0, started.original_execution_run_id);
            earlier = started.continued_execution_run_id;
            if earlier.is_empty() {
                return runs;
            }
        }
    }

    /// Waits until the history of a workflow has so many events.
    pub async fn wait_for_event(&self, client: &Client, workflow_id: &str, number: usize) {
        while self.history_length(client, workflow_id).await < number {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Deletes a closed workflow, as the server does after the retention, and waits for it.
    pub async fn delete(&self, client: &Client, workflow_id: &str) {
        let mut client = client.clone();
        let execution = WorkflowExecution {
            workflow_id: workflow_id.to_owned(),
            run_id: String::new(),
        };
        let request = DeleteWorkflowExecutionRequest {
            namespace: "default".to_owned(),
            workflow_execution: Some(execution),
        };
        WorkflowService::delete_workflow_execution(&mut client, request.into_request())
            .await
            .unwrap();
        let handle = client.get_workflow_handle::<UntypedWorkflow>(workflow_id);
        while handle.describe(WorkflowDescribeOptions::default()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts a hub, which can run all workflows, and opens the log.
    pub async fn hub(&self, limits: Limits) -> HubWithLog {
        HubWithLog::start(self.client().await, limits).await
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server, without a warning.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the server again, with the same database and port.
    pub fn restart(&mut self) {
        self.process = spawn(&self.program, self.port, &self.folder);
    }

    /// Returns the path of the database.
    pub fn database_file(&self) -> PathBuf {
        self.folder.path().join("temporal.db")
    }

    /// Returns the size of the files of the database, in bytes.
    pub fn database_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }

    /// Returns the number of bytes of the history of a workflow.
    pub async fn history_bytes(&self, client: &Client, workflow_id: &str) -> i64 {
        let handle = client.get_workflow_handle::<UntypedWorkflow>(workflow_id);
        let described = handle.describe(WorkflowDescribeOptions::default()).await;
        let info = described.unwrap().into_raw().workflow_execution_info;
        info.unwrap().history_size_bytes
    }

    /// Returns the files of the database, as far as they were written.
    pub fn database(&self) -> Vec<u8> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        files
            .flat_map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a handle of one run of a workflow; without an id, of the present one.
pub fn of_run(client: &Client, workflow_id: &str, run_id: &str) -> UntypedWorkflowHandle<Client> {
    let info = WorkflowExecutionInfo::builder()
        .namespace(client.namespace())
        .workflow_id(workflow_id)
        .maybe_run_id((!run_id.is_empty()).then_some(run_id))
        .build();
    info.bind_untyped(client.clone())
}

pub struct HubWithLog {
    pub client: Client,
    pub log: Log,
    pub hub: Hub,
}

impl HubWithLog {
    pub async fn start(client: Client, limits: Limits) -> Self {
        let log = Log::open(client.clone(), queue(), limits).await.unwrap();
        let responder = Arc::new(request::Scripted("hub"));
        let hub = Hub::start(client.clone(), &queue(), MIN_LEAD_TIMEOUT, responder)
            .await
            .unwrap();
        Self { client, log, hub }
    }
}

/// Connects as any process of the tests does.
pub async fn connect_to(port: u16, key: &[u8]) -> Client {
    let settings = Settings {
        address: format!("127.0.0.1:{port}"),
        namespace: "default".to_owned(),
        identity: "test".to_owned(),
        tls: None,
        api_key: None,
        codec: codec(key),
    };
    connect(&settings, PATIENCE).await.unwrap()
}

pub fn codec(key: &[u8]) -> Codec {
    Codec::encrypted(PayloadKey::new("test", key).unwrap(), Vec::new())
}

pub fn queue() -> Queue {
    Queue::new("test").unwrap()
}

/// The name of the worker of most tests.
pub fn worker_name() -> WorkerName {
    "w".parse().unwrap()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(program: &str, port: u16, folder: &tempfile::TempDir) -> Child {
    Command::new(program)
        .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
        .args(["--log-level", "never", "--port", &port.to_string()])
        .arg("--db-filename")
        .arg(folder.path().join("temporal.db"))
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
