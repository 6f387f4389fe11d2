//! One connection to a server: its process, if it has one, and the protocol.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::client::{Client, Notices, OpenError, ToolList};
use super::pipes::{BoundedLines, ErrorTail, MAX_MESSAGE, TooLong};
use super::settings::McpServerConfig;
use crate::tools::command::{Runner, ServerPipes, ServerProcess, ServerSpec};

/// The client of a server with the process behind it. Dropping it kills the process.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) notices: Arc<Notices>,
    /// That of its process; a server that is reached by HTTP has none.
    trace: Option<Trace>,
}

/// What explains the end of a connection.
struct Trace {
    process: ServerProcess,
    errors: ErrorTail,
    /// Reads the process's stderr into `errors` until all writers have closed it.
    error_reader: JoinHandle<()>,
    too_long: TooLong,
    notices: Arc<Notices>,
}

impl Trace {
    /// Returns what the server did that ended the connection, if it did not end by itself.
    fn fault(&self) -> Option<String> {
        let fault = self.notices.fault.get();
        fault
            .map(|&fault| fault.to_owned())
            .or_else(|| self.too_long.reason())
    }

    /// Returns why the connection ended.
    fn reason(&mut self) -> String {
        if let Some(fault) = self.fault() {
            return fault;
        }
        let ended = match self.process.exit_code() {
            Some(code) => format!("it ended with exit code {code}"),
            None => "it closed the connection".to_owned(),
        };
        match self.errors.last_line() {
            Some(line) => format!("{ended}; its last message: {line}"),
            None => ended,
        }
    }
}

/// Starts a server in the workspace `cwd`. Call it in the context of the runtime, which
/// [`connect`] then uses.
///
/// # Errors
/// If the program cannot be started.
pub(super) fn start(
    config: &McpServerConfig,
    runner: &Runner,
    cwd: &std::path::Path,
) -> std::io::Result<(ServerProcess, ServerPipes)> {
    let env: Vec<(String, String)> = config.env.clone().into_iter().collect();
    runner.start_server(&ServerSpec {
        program: config.command.as_deref().unwrap_or_default(),
        args: &config.args,
        cwd,
        env: &env,
    })
}

/// Opens the connection to a started server, and lists its tools.
///
/// # Errors
/// With the reason for people. The process is ended.
pub(super) async fn connect(
    (process, pipes): (ServerProcess, ServerPipes),
    limit: Duration,
) -> Result<(Connection, ToolList), String> {
    let open = || -> std::io::Result<_> {
        Ok((
            pipe::Sender::from_owned_fd(pipes.stdin)?,
            pipe::Receiver::from_owned_fd(pipes.stdout)?,
            pipe::Receiver::from_owned_fd(pipes.stderr)?,
        ))
    };
    let (stdin, stdout, stderr) = open().map_err(|error| error.to_string())?;
    let (lines, too_long) = BoundedLines::new(stdout);
    let errors = ErrorTail::default();
    let error_reader = tokio::spawn(errors.clone().fill(stderr));
    let notices = Arc::new(Notices::default());
    let mut trace = Trace {
        process,
        errors,
        error_reader,
        too_long,
        notices: Arc::clone(&notices),
    };
    let opened = timeout(limit, async {
        let client = Client::connect(lines, stdin, Arc::clone(&notices)).await?;
        let tools = client.tools().await?;
        Ok::<_, OpenError>((client, tools))
    });
    match opened.await {
        Ok(Ok((client, tools))) => {
            let connection = Connection {
                client,
                notices,
                trace: Some(trace),
            };
            Ok((connection, tools))
        }
        Ok(Err(OpenError::Closed(error))) if trace.is_over().await => {
            Err(format!("{} ({error})", trace.reason()))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            let last = trace.errors.last_line();
            let last = last.map_or_else(String::new, |line| format!("; its last message: {line}"));
            Err(format!("no answer within {} s{last}", limit.as_secs_f64()))
        }
    }
}

impl Trace {
    /// Returns whether the process ended, or a fault of it ended the connection. A process that
    /// closed its output gets a moment to end, and its last message one to arrive.
    async fn is_over(&mut self) -> bool {
        for _ in 0..20 {
            if self.fault().is_some() {
                return true;
            }
            if self.process.exit_code().is_some() {
                if !self.error_reader.is_finished() {
                    // A child of the process may keep its stderr open.
                    let _ = timeout(Duration::from_millis(200), &mut self.error_reader).await;
                }
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }
}

/// Connects to a server by HTTP, and lists its tools.
///
/// # Errors
/// With the reason for people.
pub(super) async fn connect_http(
    url: &str,
    headers: &BTreeMap<String, String>,
    limit: Duration,
) -> Result<(Connection, ToolList), String> {
    let notices = Arc::new(Notices::default());
    let opened = timeout(limit, async {
        let client = Client::connect_http(url, headers, MAX_MESSAGE, Arc::clone(&notices)).await?;
        let tools = client.tools().await?;
        Ok::<_, OpenError>((client, tools))
    });
    let (client, tools) = match opened.await {
        Ok(opened) => opened.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("no answer within {} s", limit.as_secs_f64())),
    };
    let connection = Connection {
        client,
        notices,
        trace: None,
    };
    Ok((connection, tools))
}

impl Connection {
    /// Returns whether the server can be reached again without a new start.
    pub(super) fn is_reusable(&self) -> bool {
        self.trace.is_none() && self.client.is_open()
    }

    /// Returns why the connection ended, and ends it.
    pub(super) async fn end_reason(&mut self) -> String {
        let Some(trace) = &mut self.trace else {
            let fault = self.notices.fault.get();
            return fault.unwrap_or(&"it closed the connection").to_string();
        };
        trace.is_over().await;
        trace.reason()
    }

    /// Closes the connection. Returns its process, which is to be ended.
    pub(super) async fn close(self) -> Option<ServerProcess> {
        // A server that does not read its input must not delay the end of the run.
        let _ = timeout(Duration::from_millis(200), self.client.close()).await;
        self.trace.map(|trace| trace.process)
    }
}
