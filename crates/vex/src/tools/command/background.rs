//! Commands that run in the background.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::bounded_output::BoundedOutput;
use super::running::{CommandEnd, RunningCommand};
use crate::interrupt::{Interrupt, ListenerGuard};
use crate::tools::ToolError;

/// The maximum number of running background commands.
const MAX_RUNNING: usize = 16;

/// The background commands of a run. Dropping it ends them all.
#[derive(Default)]
pub(crate) struct BackgroundCommands(Mutex<Vec<Background>>);

struct Background {
    id: String,
    started: Instant,
    terminal: bool,
    shared: Arc<Mutex<SharedState>>,
    wake: OwnedFd,
    watcher: Option<JoinHandle<()>>,
    _listening: ListenerGuard,
}

/// State shared by the watching thread and the model's calls.
#[derive(Default)]
struct SharedState {
    /// Output that the model has not read yet.
    unread: BoundedOutput,
    ended: Option<CommandEnd>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BackgroundCommands {
    /// Registers a command that was just started. Returns its id.
    pub(super) fn take(
        &self,
        start: impl FnOnce() -> std::io::Result<RunningCommand>,
        deadline: Option<Instant>,
        terminal: bool,
        interrupt: &Interrupt,
    ) -> Result<String, ToolError> {
        let fail = |error: std::io::Error| ToolError::Failed(format!("cannot run the command: {error}"));
        let mut all = lock(&self.0);
        let running = all.iter().filter(|one| lock(&one.shared).ended.is_none()).count();
        if running >= MAX_RUNNING {
            return Err(ToolError::Failed(format!(
                "{MAX_RUNNING} commands run in the background already; stop one with command_output first"
            )));
        }
        let (woken, wake) = std::io::pipe().map_err(fail)?;
        let (wake, shared) = (OwnedFd::from(wake), Arc::<Mutex<SharedState>>::default());
        let on_interrupt = wake.try_clone().map_err(fail)?;
        let live = start().map_err(fail)?;
        let theirs = Arc::clone(&shared);
        let watch = move || {
            let ended = live.watch(deadline, woken.as_fd(), &mut |bytes| {
                lock(&theirs).unread.push(bytes);
            });
            lock(&theirs).ended = Some(ended);
        };
        let watcher = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn(watch)
            .map_err(fail)?;
        let id = format!("bg{}", all.len() + 1);
        all.push(Background {
            id: id.clone(),
            started: Instant::now(),
            terminal,
            shared,
            wake,
            watcher: Some(watcher),
            _listening: interrupt.listen(move || _ = nix::unistd::write(&on_interrupt, b"x")),
        });
        Ok(id)
    }

    /// Returns the unread output of a command and its state. With `stop`, ends it first.
    pub(super) fn take_output(&self, id: &str, stop: bool) -> Result<String, ToolError> {
        let mut all = lock(&self.0);
        let ids = || {
            all.iter()
                .map(|one| one.id.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let Some(index) = all.iter().position(|one| one.id == id) else {
            let known = if all.is_empty() {
                "none was started".to_owned()
            } else {
                format!("there are {}", ids())
            };
            return Err(ToolError::Failed(format!(
                "there is no background command {id:?}: {known}"
            )));
        };
        if stop {
            all[index].stop();
        }
        let one = &all[index];
        let mut shared = lock(&one.shared);
        let mut text = std::mem::take(&mut shared.unread).into_text(one.terminal);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let state = match &shared.ended {
            None => format!("[{id} runs, for {} s]\n", one.started.elapsed().as_secs()),
            Some(CommandEnd { cut: Some(_), .. }) => format!("[{id} was stopped]\n"),
            Some(CommandEnd { code: Some(code), .. }) => format!("[{id} ended with exit code {code}]\n"),
            Some(_) => format!("[{id} ended]\n"),
        };
        Ok(text + &state)
    }
}

impl Background {
    fn ask_to_stop(&self) {
        let _ = nix::unistd::write(&self.wake, b"x");
    }

    /// Ends the command and waits for its end: its watcher takes about a second at most.
    fn stop(&mut self) {
        self.ask_to_stop();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl BackgroundCommands {
    /// Ends all commands, and waits for their ends.
    pub(crate) fn stop_all(&self) {
        let mut all = lock(&self.0);
        for one in all.iter() {
            one.ask_to_stop();
        }
        for one in all.iter_mut() {
            one.stop();
        }
    }
}

impl Drop for BackgroundCommands {
    fn drop(&mut self) {
        self.stop_all();
    }
}
