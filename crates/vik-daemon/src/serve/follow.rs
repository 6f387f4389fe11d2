//! A hub that follows: it accepts requests, and waits until it leads.

use tokio::sync::{mpsc, watch};
use vik_api::{Action, ApiView, Daemon as DaemonView, DaemonState, HubView, Status};
use vik_base::report::{ErrorCode, Failure};
use vik_control::http::Standing;
use vik_control::{ControlContext, ControlServer};
use vik_core::scheduler::{Command, CommandResult};
use vik_orchestrator::{ControlRequest, RunSummary};

use super::Daemon;
use crate::Ready;
use crate::engine::Lead;

/// How the time in which a hub follows has ended.
pub enum Following {
    Leads(Lead),
    /// It was asked to end.
    Ended(Box<RunSummary>),
}

/// Answers the requests that concern this process alone, until one of them ends it. All others are
/// passed on by the API, and never arrive here.
pub async fn follow(requests: &mut mpsc::Receiver<ControlRequest>, own_status: Status) -> Box<RunSummary> {
    let mut summary = Box::<RunSummary>::default();
    while let Some(request) = requests.recv().await {
        match request {
            ControlRequest::Status(answer) => {
                let _ = answer.send(Box::new(own_status.clone()));
            }
            ControlRequest::Act { action, by, answer } => {
                summary.stopped = matches!(action, Action::Stop { .. });
                summary.drained = matches!(action, Action::Command(Command::Drain));
                if summary.stopped || summary.drained {
                    tracing::info!(%by, action = action.as_str(), "request received");
                    let _ = answer.send(Ok(CommandResult::Done(0)));
                    return summary;
                }
            }
            // The client sees that there is no answer.
            _ => {}
        }
    }
    std::future::pending().await
}

/// Returns the summary of a process that a signal ended before it led.
pub fn stopped_by_signal(interrupted: bool) -> Box<RunSummary> {
    let mut summary = Box::<RunSummary>::default();
    (summary.stopped, summary.interrupted) = (true, interrupted);
    summary
}

impl Daemon {
    /// Opens the control socket, and makes the process known.
    pub(super) fn open(
        &self,
        context: ControlContext,
        api: Option<&ApiView>,
        on_listening: fn(&ApiView),
    ) -> Result<ControlServer, Failure> {
        let fail = |message: &str, error: &std::io::Error| Failure::failed(ErrorCode::Daemon, message, error);
        let socket = self.home.instance.dir().socket();
        let server = ControlServer::listen(&socket, context)
            .map_err(|error| fail(&format!("cannot listen at {}", socket.display()), &error))?;
        self.home
            .instance
            .announce(&self.info)
            .map_err(|error| fail("cannot write instance.json", &error))?;
        tracing::info!(version = self.info.version, workflow = %self.info.workflow_path.display(), "ready");
        if let Some(api) = api {
            tracing::info!(address = api.address, "serving HTTP");
            on_listening(api);
        }
        Ok(server)
    }

    /// Notifies the command that started the process, if it was not notified before.
    pub(super) fn ready(&self, ready: &mut Option<Ready>) -> Result<(), Failure> {
        let Some(ready) = ready.take() else { return Ok(()) };
        let log = self.home.host.layout.logs_dir().join("daemon.stderr.log");
        ready
            .ready(&log)
            .map_err(|error| Failure::failed(ErrorCode::Daemon, "cannot detach", &error))
    }

    /// Notifies the command that started the process when it follows. Returns only a failure.
    pub(super) async fn ready_to_follow(
        &self,
        mut standings: watch::Receiver<Standing>,
        ready: &mut Option<Ready>,
    ) -> Failure {
        let follows = |standing: &Standing| matches!(standing, Standing::Following(_));
        if standings.wait_for(follows).await.is_ok()
            && let Err(failure) = self.ready(ready)
        {
            return failure;
        }
        std::future::pending().await
    }

    /// Returns the status of this process while it follows.
    pub(super) fn following_status(&self, host: Option<&str>) -> Status {
        let mut status = Status::of(DaemonView {
            state: DaemonState::Following,
            pid: Some(self.info.process.pid),
            started_at: Some(self.info.started_at),
            version: Some(self.info.version.clone()),
            workflow_path: self.info.workflow_path.clone(),
            home: Some(self.home.host.layout.home().to_owned()),
        });
        status.hub = host.map(|host| HubView {
            leader: None,
            follower: Some(host.to_owned()),
        });
        status
    }
}
