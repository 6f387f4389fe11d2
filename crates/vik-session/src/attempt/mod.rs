//! Runs one attempt: prepares the workspace, starts the agent under the shim, reads its output and
//! concludes. The journal of the attempt records each step before it happens, so that a later
//! daemon can resume where the journal ends.
//!
//! ```no_run
//! # async fn example(attempt: vik_session::attempt::Attempt) {
//! use vik_session::attempt::{Finish, run};
//!
//! match run(attempt).await {
//!     Finish::Ended(end) => println!("{}", end.ended.result.outcome),
//!     Finish::Detached => println!("the agent lives on, for the next daemon"),
//!     Finish::HandedOver(result) => println!("handed over: {}", result.is_ok()),
//!     Finish::StorageFailed(error) => eprintln!("{error}"),
//! }
//! # }
//! ```

mod acceptance;
pub mod activity;
mod agent_end;
mod apply;
mod approval;
mod broken;
mod changed;
mod commands;
mod concluded;
mod confine;
mod context;
mod credentials;
mod durable;
mod exited;
mod extensions;
mod finish;
mod finished;
mod follow;
mod full;
mod hand_over;
mod handle;
mod input_mode;
pub mod intent;
mod judged;
mod live;
mod login;
mod messages;
mod opened;
mod outputs;
mod own_servers;
mod partial_lines;
mod prepare;
mod prepared;
mod prompt;
mod questions;
mod reader;
mod recover;
mod remote;
mod runner;
mod running;
mod scope;
mod scripts;
mod session_log;
mod task;
mod terminal;
mod timeouts;
mod tool_calls;
mod turns;
mod updates;
mod verdict;
mod workplace;

pub use agent_end::reported_spend;
pub use commands::{AttemptCommands, CommandSender, CommandSnapshot, StopCause, StopLevel, TurnDecision};
pub(crate) use context::pursuit;
pub use context::{issue_context, sample_session, stage_context};
pub use finish::{AttemptEnd, Finish};
pub use follow::{FollowError, KeptOutput, OutputReader};
pub use handle::{AttemptHandle, AttemptLink};
pub use live::{Facts, Live, LivePhase, Steering, StopStep, Stopping, Waiting, WaitsFor};
#[cfg(test)]
pub use login::read_login;
pub use opened::Attempt;
pub use own_servers::SERVERS;
#[cfg(test)]
pub(crate) use questions::read_question_file;
pub use questions::{file as question_file, section as question_section};
pub use remote::{
    RemoteCommand, RemoteCommands, RemoteLink, RemoteUpdates, WorkerEnd, WorkerFinish, WorkerHandle,
    WorkerUpdate,
};
pub use runner::run;
pub use scripts::PROMPT;
pub(crate) use scripts::vik_variables;
pub use task::{span, spawn, spawn_hand_over};
pub use terminal::{PersonSession, RunningSession, SessionCommand};
pub use updates::{AttemptUpdate, AttemptUpdates, UpdateSender, UpdateSnapshot};
