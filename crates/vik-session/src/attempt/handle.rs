//! The two ends of a running attempt: the loop's handle, and the attempt's own end.

use super::commands::{AttemptCommands, CommandSender};
use super::updates::{AttemptUpdates, UpdateSender};

/// The loop's end of a running attempt, and all that the two share.
///
/// Commands go down. They are a state, not a queue: none is lost, each is seen as soon as the
/// attempt looks, and a repeated one changes nothing. They may be sent before the attempt has
/// started and after it has finished.
///
/// Updates go up, and nothing queues, whatever an agent prints:
///
/// - The facts for `status` ([`Live`](super::Live)) are read on request and do not wake the loop.
/// - Of the spend, and of the request that waits for a person, the latest value is delivered. Values
///   between two reads are lost; each replaces the one before.
/// - The ids of messages that the agent has taken are delivered one after another.
/// - The finish is delivered once and last: the latest values that were sent before it come first.
///   If the attempt is dropped without one, it counts as detached.
///
/// # Examples
///
/// ```
/// use vik_core::attempt::StopReason;
/// use vik_session::attempt::{AttemptHandle, AttemptUpdate, Finish, StopCause, StopLevel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (mut handle, link) = AttemptHandle::new();
/// assert_eq!(link.commands.stop_cause(), None);
/// handle.commands.stop_with_daemon(StopLevel::Stop);
/// assert_eq!(link.commands.stop_cause(), Some(StopCause::All));
/// // Its own reason wins.
/// handle.commands.stop(StopReason::Cancelled);
/// assert_eq!(link.commands.stop_cause(), Some(StopCause::Own(StopReason::Cancelled)));
///
/// link.updates.finish(Finish::Detached);
/// assert!(matches!(handle.updates.next().await, AttemptUpdate::Finished(Finish::Detached)));
/// # }
/// ```
#[derive(Debug)]
pub struct AttemptHandle {
    pub commands: CommandSender,
    pub updates: AttemptUpdates,
}

#[derive(Debug)]
pub struct AttemptLink {
    pub commands: AttemptCommands,
    pub updates: UpdateSender,
}

impl AttemptHandle {
    pub fn new() -> (Self, AttemptLink) {
        let (sender, commands) = AttemptCommands::channel();
        let (updates, receiver) = AttemptUpdates::channel();
        let handle = Self {
            commands: sender,
            updates: receiver,
        };
        (handle, AttemptLink { commands, updates })
    }
}
