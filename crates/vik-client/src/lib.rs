//! The client of a daemon's HTTP API, over its control socket or TCP.
//!
//! A [`Client`] has one connection per request. It uses no proxy and follows no redirect, so that a
//! token goes only to its own address. [`blocking`] sends a request from code that is not async.
//!
//! ```
//! use vik_client::{ClientError, Endpoint, blocking};
//!
//! let daemon = Endpoint::Unix("/nonexistent/vik.sock".into());
//! let error = blocking(&daemon, async |client| client.state().await).unwrap_err();
//! assert!(matches!(error, ClientError::Connect { .. }), "no daemon listens there");
//! ```

#![forbid(unsafe_code)]

mod client;
mod endpoint;
mod error;
mod line;
mod requests;

#[cfg(test)]
mod tests;

pub use client::{Client, Feed};
pub use endpoint::Endpoint;
pub use error::ClientError;

/// Sends requests of the command line, and waits for them.
///
/// # Errors
/// The error of `send`, or if the address is invalid.
pub fn blocking<T>(
    endpoint: &Endpoint,
    send: impl AsyncFnOnce(&Client) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let client = Client::new(endpoint, "vik")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ClientError::Connect {
            target: client.target().to_owned(),
            source,
        })?;
    runtime.block_on(send(&client))
}
