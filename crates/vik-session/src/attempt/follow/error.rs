//! The error of an output reader.

use std::io;
use std::sync::Arc;

use vik_store::StoreError;

/// Why the output of an agent cannot be read or processed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("cannot read the agent's output")]
    Read(#[source] io::Error),
    #[error("cannot write the session log")]
    Log(#[source] Arc<StoreError>),
    /// The journal or the agent's input cannot be written.
    #[error("cannot answer the agent")]
    Answer(#[source] StoreError),
    /// The agent violates the protocol.
    #[error("{0}")]
    Broken(String),
}

impl FollowError {
    /// Returns the error of the file that could not be written, if there is one.
    pub(in crate::attempt) fn store(&self) -> Option<&StoreError> {
        match self {
            Self::Log(error) => Some(error),
            Self::Answer(error) => Some(error),
            Self::Read(_) | Self::Broken(_) => None,
        }
    }
}
