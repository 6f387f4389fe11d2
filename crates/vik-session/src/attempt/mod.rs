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
//!     Finish::StorageFailed(error) => eprintln!("{error}"),
//! }
//! # }
//! ```

mod agent;
mod approval;
mod changed;
mod commands;
mod conclude;
mod confine;
mod context;
mod credentials;
mod follow;
mod full;
pub mod intent;
mod live;
mod login;
mod outputs;
mod prepare;
mod runner;
mod scope;
mod scripts;
mod stop;
mod timeouts;
mod tool_calls;
mod update;

pub use commands::{AttemptCommands, AttemptControl, StopCause};
pub use context::{issue_context, stage_context};
pub use follow::{FollowError, KeptOutput, OutputReader};
pub use live::{Live, LivePhase};
#[cfg(test)]
pub use login::read_login;
pub use outputs::sample as sample_output;
pub use runner::{Attempt, AttemptEnd, Finish, run};
pub use scripts::PROMPT;
pub use stop::{Stop, StopLevel};
pub use update::{AttemptUpdate, AttemptUpdateKind};
