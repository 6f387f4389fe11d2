//! Takes over the terminal and always restores it.

use std::io::{self, IsTerminal, Write as _};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use ratatui::DefaultTerminal;

use crate::error::TopError;

/// The terminal while the dashboard uses it; dropping it restores the terminal, also in a panic.
pub(crate) struct Screen {
    pub(crate) terminal: DefaultTerminal,
}

/// Returns an error if there is no terminal, before anything is written.
pub(crate) fn check() -> Result<(), TopError> {
    if !io::stdin().is_terminal() {
        return Err(TopError::NotATerminal("stdin"));
    }
    if !io::stdout().is_terminal() {
        return Err(TopError::NotATerminal("stdout"));
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(TopError::DumbTerminal);
    }
    Ok(())
}

impl Screen {
    pub(crate) fn open() -> Result<Self, TopError> {
        check()?;
        // This also sets a panic hook that restores the terminal before the message is printed.
        let terminal = ratatui::try_init().map_err(|source| {
            restore();
            TopError::Terminal {
                operation: "take over",
                source,
            }
        })?;
        let screen = Self { terminal };
        // Otherwise pasted text would be keys: one that cancels, and one that confirms.
        execute!(io::stdout(), EnableBracketedPaste).map_err(|source| TopError::Terminal {
            operation: "write to",
            source,
        })?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // There is no way to report or retry a failure here.
    let mut out = io::stdout();
    let _ = execute!(out, DisableBracketedPaste);
    // In a panic the hook did that; leaving the screen twice would put the cursor over the message.
    if !std::thread::panicking() {
        let _ = ratatui::try_restore();
    }
    let _ = execute!(out, crossterm::cursor::Show);
    let _ = out.flush();
}
