//! The dashboard in the terminal, `vik top`: a client of the daemon's HTTP API and of nothing else.
//!
//! [`run`] receives messages (keys, responses, the feed), updates the plain state in `app`, carries
//! out the commands that it returns, and draws it with `view`. Text from outside reaches the
//! terminal only through `text`, which removes control characters.
//!
//! ```no_run
//! # async fn example() -> Result<(), vik_tui::TopError> {
//! use vik_client::Endpoint;
//! use vik_tui::run;
//!
//! let socket = "/run/user/1000/vik/0123456789abcdef/vik.sock";
//! run(Endpoint::Unix(socket.into())).await
//! # }
//! ```

#![forbid(unsafe_code)]

mod action;
mod app;
mod error;
#[cfg(test)]
mod fixtures;
mod msg;
mod rows;
mod run;
mod table;
mod terminal;
mod text;
mod view;

pub use error::TopError;
pub use run::run;
