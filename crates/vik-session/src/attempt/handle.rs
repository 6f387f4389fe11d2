//! The two ends of a running attempt: the loop's handle, and the attempt's own end.

use super::commands::{AttemptCommands, CommandSender};
use super::remote::{RemoteLink, WorkerHandle};
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
        let (handle, commands, updates) = Self::channels(false);
        (handle, AttemptLink { commands, updates })
    }

    /// Creates the handle of an attempt on another machine, and the end of what carries commands and
    /// updates there and back.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_session::attempt::{
    ///     AttemptHandle, AttemptUpdate, Finish, RemoteCommand, StopCause, StopLevel, WorkerEnd, WorkerUpdate,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// // On the hub.
    /// let (mut handle, mut remote) = AttemptHandle::remote();
    /// handle.commands.stop_with_daemon(StopLevel::Stop);
    /// let RemoteCommand::Send(commands) = remote.commands.next().await else { unreachable!() };
    ///
    /// // On the worker.
    /// let (local, link) = AttemptHandle::new();
    /// let mut worker = local.into_worker();
    /// worker.commands.apply(commands);
    /// assert_eq!(link.commands.stop_cause(), Some(StopCause::All));
    /// link.updates.finish(Finish::HandedOver(Ok(())));
    /// let WorkerUpdate::Finished(finish) = worker.next().await else { unreachable!() };
    ///
    /// // On the hub.
    /// remote.updates.apply(finish.updates);
    /// if let WorkerEnd::HandedOver(result) = finish.end {
    ///     remote.updates.finish(Finish::HandedOver(result));
    /// }
    /// assert!(matches!(handle.updates.next().await, AttemptUpdate::Finished(Finish::HandedOver(Ok(())))));
    /// # }
    /// ```
    pub fn remote() -> (Self, RemoteLink) {
        let (handle, commands, updates) = Self::channels(true);
        (handle, RemoteLink::new(commands, updates))
    }

    /// Makes this the handle of an attempt that a hub on another machine commands.
    pub fn into_worker(self) -> WorkerHandle {
        WorkerHandle::new(self.commands, self.updates)
    }

    fn channels(is_remote: bool) -> (Self, AttemptCommands, UpdateSender) {
        let (commands, receiver) = AttemptCommands::channel(is_remote);
        let (sender, updates) = AttemptUpdates::channel();
        (Self { commands, updates }, receiver, sender)
    }
}
