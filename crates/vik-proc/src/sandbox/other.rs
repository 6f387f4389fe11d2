//! The implementation for systems without a sandbox.

use std::io;

use super::{Sandbox, SandboxError};

/// There is no template that opens them.
#[derive(Debug)]
pub(crate) enum OpenedPlaces {}

#[derive(Debug)]
pub(super) struct Walls(std::convert::Infallible);

impl Walls {
    pub(super) fn of(_: &Sandbox, _: Option<&OpenedPlaces>) -> Result<(Self, i64), SandboxError> {
        Err(SandboxError::Unsupported("Landlock is only available on Linux"))
    }

    pub(super) fn enforce(&self) -> io::Result<()> {
        match self.0 {}
    }
}
