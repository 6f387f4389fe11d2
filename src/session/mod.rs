//! One attempt: prepare, start the agent under the shim, follow what it prints, conclude.

mod agent;
mod attempt;
mod context;
mod follow;
mod live;
mod orders;
mod scripts;
mod stop;

pub use attempt::{Attempt, AttemptEnd, Finish, Spent, files, prompt_source, run};
pub use context::{issue_context, stage_context};
pub use follow::{FollowError, Follower};
pub use live::{Live, LivePhase};
pub use orders::{Halt, Orders, Tell};
pub use stop::{Stop, StopLevel};
