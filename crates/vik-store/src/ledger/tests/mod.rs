//! Tests of the ledger.

use super::*;

mod simple;
