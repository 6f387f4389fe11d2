use std::cell::RefCell;
use std::rc::Rc;

use crate::pool::State;

/// A connection of the pool; dropping a `Conn` gives it back.
#[derive(Debug)]
pub struct Conn {
    address: String,
    state: Rc<RefCell<State>>,
}

impl Conn {
    pub(crate) fn open(address: &str, state: &Rc<RefCell<State>>) -> Conn {
        state.borrow_mut().open_conns += 1;
        Conn {
            address: address.to_string(),
            state: Rc::clone(state),
        }
    }

    /// Sends a message, and returns the line that went out.
    pub fn send(&self, message: &str) -> String {
        let line = format!("{} < {message}", self.address);
        self.state.borrow_mut().sent.push(line.clone());
        line
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.state.borrow_mut().open_conns -= 1;
    }
}
