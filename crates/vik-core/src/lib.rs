//! The pure core of Vik.
//!
//! It is deterministic: no I/O, no clock, no async runtime. Time is an argument, and effects are
//! returned as data.
//!
//! [`workflow::Workflow`] is the policy, [`issue::Pull`] the issues of a tracker. A
//! [`scheduler::Scheduler`] decides: it takes one [`scheduler::Input`] after another and returns
//! [`scheduler::Effect`]s, with the [`changes::Changes`] that must be on disk before.
//!
//! ```
//! use vik_core::issue::Pull;
//!
//! let pull = Pull::parse(br#"[{"id": 7, "title": "A bug", "state": "todo"}, {"title": "B"}]"#)?;
//! assert_eq!(pull.issues[0].id.as_str(), "7");
//! // An item without an id is reported, and does not hide the others.
//! assert_eq!(pull.skipped[0].index, 1);
//! # Ok::<(), vik_core::issue::ParsePullError>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod approval;
pub mod attempt;
pub mod backoff;
pub mod changes;
pub mod decision_kind;
pub mod ended;
pub mod event;
pub mod file_change;
pub mod ids;
pub mod intent;
pub mod issue;
pub mod limits;
pub mod machine;
pub mod message;
pub mod money;
pub mod mutation;
pub mod outcome;
pub mod outputs;
pub mod plural;
pub mod question;
pub mod retry_later;
pub mod scheduler;
pub mod time;
pub mod trust;
pub mod turn;
pub mod visible;
pub mod worker;
pub mod workflow;

pub use vik_duration as duration;
pub use vik_scope as scope;
