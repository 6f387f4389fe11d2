use std::fmt;

/// Why the pool gave no `Conn`.
#[derive(Debug, PartialEq, Eq)]
pub enum PoolError {
    /// All are in use: `open_conns` has reached the limit.
    Exhausted { limit: usize },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::Exhausted { limit } => write!(f, "all {limit} connections are in use"),
        }
    }
}

impl std::error::Error for PoolError {}
