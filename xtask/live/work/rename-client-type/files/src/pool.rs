use std::cell::RefCell;
use std::rc::Rc;

use crate::conn::Conn;
use crate::error::PoolError;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) open_conns: usize,
    pub(crate) sent: Vec<String>,
}

/// Hands out at most `limit` connections at a time.
#[derive(Debug)]
pub struct Pool {
    address: String,
    limit: usize,
    state: Rc<RefCell<State>>,
}

impl Pool {
    pub fn new(address: &str, limit: usize) -> Pool {
        Pool {
            address: address.to_string(),
            limit,
            state: Rc::default(),
        }
    }

    /// Takes a [`Conn`] out of the pool.
    ///
    /// # Errors
    ///
    /// If all of them are in use.
    pub fn take_conn(&self) -> Result<Conn, PoolError> {
        if self.open_conns() >= self.limit {
            return Err(PoolError::Exhausted { limit: self.limit });
        }
        Ok(Conn::open(&self.address, &self.state))
    }

    /// Returns the number of connections in use.
    pub fn open_conns(&self) -> usize {
        self.state.borrow().open_conns
    }

    /// Returns all lines that were sent.
    pub fn log(&self) -> Vec<String> {
        self.state.borrow().sent.clone()
    }
}
