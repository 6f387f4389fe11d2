//! Hubs and workers on a Temporal server of their own, which can fail too.
//!
//! `VIK_TEMPORAL_BIN` names the program of the server.

mod chaos;
mod cluster;
mod cut;
mod follow;
mod import;
mod life;
mod names;
mod network;
mod points;
mod proxy;
mod pulse;
mod takeover;
mod tls;
