//! The agent of an earlier daemon: it is taken over, or its end is determined.

use std::path::Path;
use std::time::{Duration, Instant};

use vik_base::report;
use vik_proc::identity::boot_id;
use vik_proc::{AdoptError, ProcessId};
use vik_store::{AttemptFailure, ProcessRecord};

use super::agent_end::{AgentEnd, unproven_end_failure};
use super::exited::{Detached, EndedTree, Exited};
use super::opened::Opened;
use super::running::Running;
use super::session_log::ClosableLog;

/// The interval at which a shim that cannot be taken over is polled for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The shim and the agent that an earlier daemon started.
pub(super) struct EarlierAgent {
    /// The boot id of the machine at that time.
    pub(super) boot_id: String,
    pub(super) shim: ProcessRecord,
    pub(super) agent: Option<ProcessRecord>,
    /// Why the agent is to be stopped.
    pub(super) stopping: Option<AttemptFailure>,
}

impl<'a> Opened<'a> {
    /// Takes over the agent that an earlier daemon started and watches it, or determines how it
    /// ended.
    ///
    /// # Errors
    /// When the attempt was detached.
    pub(super) async fn recover_agent(self, earlier: EarlierAgent) -> Result<Exited<'a>, Detached> {
        let Self { cx, log } = self;
        let EarlierAgent {
            boot_id: boot,
            shim,
            agent,
            stopping,
        } = earlier;
        let (shim, agent) = (process(shim), agent.map(process));
        cx.host().agent_shims.add([shim]);
        let spec = cx.shim_spec(Path::new("/"));
        let is_ended = log.is_ended;
        let mut reader = match cx.open_reader(log) {
            Ok(reader) => reader,
            Err(failure) => {
                // Nothing could read the agent's output, so it is ended.
                let end = vik_proc::recover(&spec, shim, agent, &boot).await;
                cx.exchange_login().await;
                let proof = end.map_or_else(|lost| lost.proof().clone(), |record| record.proof);
                return Ok(Exited {
                    cx,
                    log: ClosableLog::new(None, is_ended),
                    agent: AgentEnd::unread(&proof),
                    verdict: unproven_end_failure(&proof).unwrap_or(failure).into(),
                });
            }
        };
        if boot == boot_id() {
            match cx.host().supervisor.adopt(&spec, shim, agent).await {
                Ok(supervised) => {
                    tracing::info!("agent taken over");
                    if stopping.is_some() {
                        supervised.stop();
                    }
                    let now = Instant::now();
                    let started = now.checked_sub(shim.age()).unwrap_or(now);
                    let running = Running {
                        cx,
                        supervised,
                        reader,
                        started,
                        stopping,
                        log_is_ended: is_ended,
                    };
                    return running.watch(None).await;
                }
                Err(AdoptError::NoControl { .. }) => {}
                Err(error) => {
                    let error = report::chain(&error);
                    tracing::warn!(error, "cannot adopt an agent: killing it");
                }
            }
        }
        // Without an orphan grace the shim is already ending its agent and gets the time for it.
        let deadline = Instant::now() + spec.graces.total();
        while boot == boot_id() && shim.is_alive() && Instant::now() < deadline {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = cx.attempt.commands.killed() => break,
            }
        }
        if agent.is_some() || reader.has_printed() {
            cx.log_prompt_messages(&mut cx.message_events(), &mut reader);
        }
        let end = vik_proc::recover(&spec, shim, agent, &boot).await;
        let tree = EndedTree {
            cx,
            end,
            reader,
            stopping,
            log_is_ended: is_ended,
            ran: false,
        };
        tree.read_remaining().await
    }
}

fn process(note: ProcessRecord) -> ProcessId {
    ProcessId {
        pid: note.pid,
        start_time: note.start_time,
    }
}
