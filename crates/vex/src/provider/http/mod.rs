//! Providers that are reached over HTTP.

pub mod fault;
pub mod retry;
