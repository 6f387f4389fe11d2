//! The dashboard in the terminal, `vik top`: a client of the daemon's HTTP API and of nothing else.
//!
//! [`run`] is told what happens (keys, answers, the feed), lets the plain state in `app` take it in, carries out what
//! that asks for, and has `view` draw it. Text from outside reaches the terminal only through `text`, which lets no
//! control character pass.

#![warn(missing_docs)]

mod app;
mod client;
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

pub use client::Endpoint;
pub use error::{ClientError, TopError};
pub use run::{Options, run};
