//! Tests against a real server, whose program `VIK_TEMPORAL_BIN` names. Without it, they are skipped.

mod log;
mod server;
