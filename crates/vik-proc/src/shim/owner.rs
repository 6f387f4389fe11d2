//! The daemon that owns the shim: its commands, and the time without one.

use std::time::Instant;

use super::Shim;
use super::control::ControlMessage;
use super::lifeline::{Command, Lifeline};
use crate::spec::Cause;

impl Shim {
    pub(super) fn take_commands(&mut self) {
        let Some(lifeline) = &mut self.lifeline else {
            return;
        };
        let open = lifeline.receive();
        self.run_commands();
        if !open {
            self.lifeline = None;
        }
    }

    pub(super) fn run_commands(&mut self) {
        let lines = self.lifeline.as_mut().map(Lifeline::lines).unwrap_or_default();
        for command in lines.iter().filter_map(|line| Command::parse(line)) {
            self.carry_out(command);
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Stop => self.stop(Cause::Stopped),
            Command::Kill => self.kill(Cause::Killed),
            Command::Renew(end) => self.renew_lease(end),
        }
    }

    /// Handles the messages from the FIFO.
    pub(super) fn take_control_messages(&mut self) {
        let Some(control) = &mut self.control else { return };
        let open = control.receive();
        for message in control.take_messages() {
            match message {
                ControlMessage::Hello(owner) => self.owner = Some(owner),
                ControlMessage::Bye(name) if self.is_owned_by(&name) => self.owner = None,
                ControlMessage::Command(command, name) if self.is_owned_by(&name) => self.carry_out(command),
                ControlMessage::Bye(_) | ControlMessage::Command(..) => {}
            }
        }
        if !open {
            self.owner = None;
            if self
                .control
                .as_mut()
                .is_some_and(|control| control.reopen().is_err())
            {
                self.control = None;
            }
        }
    }

    fn is_owned_by(&self, name: &[u8]) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is(name))
    }

    /// Starts to wait for a daemon if there is none, and stops waiting if there is one.
    pub(super) fn update_orphan_deadline(&mut self) {
        if self.lifeline.is_some() || self.owner.is_some() {
            self.orphan_until = None;
        } else if self.control.is_none() {
            self.orphan_until = None;
            self.stop(Cause::LifelineLost);
        } else if self.orphan_until.is_none() {
            self.orphan_until = Some(Instant::now() + self.spec.orphan_grace);
        }
    }

    /// Stops the agent if no daemon came in time.
    pub(super) fn end_orphan(&mut self, now: Instant) {
        if self.orphan_until.is_none_or(|until| now < until) {
            return;
        }
        // A daemon may have come while a signal had stopped this process.
        self.take_control_messages();
        self.update_orphan_deadline();
        if self.orphan_until.take().is_some() {
            self.stop(Cause::LifelineLost);
        }
    }
}
