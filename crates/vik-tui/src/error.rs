//! Errors of the dashboard.

use std::io;

use vik_client::ClientError;

/// Why the dashboard could not be shown, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Standard input or output is a file or a pipe.
    #[error("the dashboard needs a terminal, but {0} is not one")]
    NotATerminal(&'static str),
    /// `TERM=dumb`: the terminal cannot position text.
    #[error("this terminal cannot show a dashboard: TERM is `dumb`")]
    DumbTerminal,
    /// An operation of the terminal failed.
    #[error("cannot {operation} the terminal")]
    Terminal {
        /// The operation, for example `read from`.
        operation: &'static str,
        source: io::Error,
    },
    /// The daemon did not answer the first request.
    #[error("cannot get the state of the daemon")]
    Daemon(#[source] ClientError),
}
