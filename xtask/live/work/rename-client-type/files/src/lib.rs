//! A pool of connections: see [`Pool`] and [`Conn`].

mod conn;
mod error;
mod pool;

pub use conn::Conn;
pub use error::PoolError;
pub use pool::Pool;
