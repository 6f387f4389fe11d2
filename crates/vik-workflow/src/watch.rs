//! The workflow while a daemon runs: its files are watched, and the last good version is kept.

mod dir_watcher;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use vik_core::workflow::{Edit, applied, edits};

use super::loaded::{LoadedWorkflow, Rejected, Texts};
use super::{WorkflowFile, read_text};

use dir_watcher::DirWatcher;

/// One save causes several events. It is complete when there was no event for this time.
const QUIET: Duration = Duration::from_millis(100);

/// After this time, files that change continuously are read nevertheless.
const LONGEST_UNREST: Duration = Duration::from_secs(1);

/// How often files are checked that cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How often watched files are checked, because no event reports that a folder far above them was
/// moved.
const WATCHED_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The result of a check of the workflow.
#[derive(Debug)]
pub enum Reload {
    /// Nothing changed since the last check. Sent only on request.
    Unchanged,
    /// The workflow is valid and in force from now on.
    Good {
        /// The workflow. A value that needs a restart keeps its running value.
        loaded: Box<LoadedWorkflow>,
        /// The differences from the running workflow. Empty after an edit without effect, and after
        /// one that takes back a bad edit.
        edits: Vec<Edit>,
        /// Warnings, as text for people; empty if there are none.
        warnings: String,
    },
    /// The workflow is not valid: the last good one stays in force.
    Bad(Rejected),
}

enum Signal {
    /// Something happened to these paths. An empty list stands for any path.
    Touched(Vec<PathBuf>),
    /// A check was requested.
    Asked,
    End,
}

/// Watches the workflow file and its prompt files on a thread of its own, so that a disk that does
/// not answer blocks nothing else.
///
/// # Examples
///
/// ```no_run
/// # async fn example(running: vik_workflow::LoadedWorkflow) -> std::io::Result<()> {
/// use vik_workflow::{Reload, Watch};
///
/// let mut watch = Watch::start(running)?;
/// match watch.next().await {
///     Reload::Good { loaded, .. } => println!("{} is in force", loaded.path.display()),
///     Reload::Bad(rejected) => eprint!("{}", rejected.failure.text(false)),
///     Reload::Unchanged => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Watch {
    signals: Sender<Signal>,
    reloads: UnboundedReceiver<Reload>,
}

impl Watch {
    /// Watches the files of the running workflow. Changes since it was loaded are reported first.
    ///
    /// # Errors
    /// When the thread cannot be created.
    pub fn start(running: LoadedWorkflow) -> io::Result<Self> {
        Self::with(running, DirWatcher::open, POLL_INTERVAL)
    }

    fn with(
        running: LoadedWorkflow,
        dir_watcher: impl FnOnce(Sender<Signal>) -> DirWatcher,
        poll: Duration,
    ) -> io::Result<Self> {
        let (signals, receiver) = channel();
        let (sender, reloads) = unbounded_channel();
        let mut watcher = Watcher {
            texts: running.texts.clone(),
            running,
            dirs: dir_watcher(signals.clone()),
            poll,
            reloads: sender,
        };
        std::thread::Builder::new()
            .name("vik-workflow".to_owned())
            .spawn(move || watcher.run(&receiver))?;
        Ok(Self { signals, reloads })
    }

    /// Requests a check. [`Watch::next`] returns the result, even if nothing changed.
    pub fn refresh(&self) {
        // The thread ends only with this value.
        drop(self.signals.send(Signal::Asked));
    }

    /// Waits for the next result. Cancelling the call loses nothing.
    pub async fn next(&mut self) -> Reload {
        match self.reloads.recv().await {
            Some(reload) => reload,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.signals.send(Signal::End));
    }
}

struct Watcher {
    running: LoadedWorkflow,
    /// The texts that were read last, valid or not.
    texts: Texts,
    dirs: DirWatcher,
    poll: Duration,
    reloads: UnboundedSender<Reload>,
}

impl Watcher {
    fn run(&mut self, receiver: &Receiver<Signal>) {
        let mut requested = false;
        loop {
            let changed = self.has_changed();
            if changed {
                self.load();
            } else if requested {
                drop(self.reloads.send(Reload::Unchanged));
            }
            // The workflow may name other files, which may have changed before they were watched.
            let changing = changed && self.has_changed();
            match self.wait(receiver, changing) {
                Some(next) => requested = next,
                None => return,
            }
        }
    }

    /// Waits for a reason to check. Returns whether a check was requested, or `None` at the end.
    fn wait(&self, receiver: &Receiver<Signal>, changing: bool) -> Option<bool> {
        let due = Instant::now()
            + if self.dirs.watches_all() {
                WATCHED_POLL_INTERVAL
            } else {
                self.poll
            };
        let mut changing = changing.then(Instant::now);
        loop {
            let until = match changing {
                None => due,
                Some(since) => (Instant::now() + QUIET).min(since + LONGEST_UNREST),
            };
            match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Signal::Asked) => return Some(true),
                Ok(Signal::Touched(paths)) if self.dirs.concern(&paths) => {
                    changing.get_or_insert_with(Instant::now);
                }
                // Otherwise, a busy folder would delay the next check forever.
                Ok(Signal::Touched(_)) if changing.is_some() || Instant::now() < due => {}
                Ok(Signal::Touched(_)) | Err(RecvTimeoutError::Timeout) => return Some(false),
                Ok(Signal::End) | Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Returns whether a file differs from the last read. The watch is set up before the read, so
    /// that a change in between causes an event.
    fn has_changed(&mut self) -> bool {
        self.dirs.aim(self.texts.keys());
        let mut texts = self.texts.iter();
        texts.any(|(path, text)| read_text(path).ok() != *text)
    }

    /// Loads the workflow and sends the result.
    fn load(&mut self) {
        let mut warnings = String::new();
        let (result, texts) =
            WorkflowFile::load(&self.running.path, false, |text| text.clone_into(&mut warnings));
        self.texts = texts;
        let reload = match result {
            Err(rejected) => Reload::Bad(rejected),
            Ok(edited) => {
                let mut edits = edits(&self.running.workflow, &edited.workflow);
                edits.extend(self.running.prompts.edits(&edited.prompts));
                let workflow = applied(&self.running.workflow, (*edited.workflow).clone());
                self.running = LoadedWorkflow {
                    workflow: Arc::new(workflow),
                    ..edited
                };
                Reload::Good {
                    loaded: Box::new(self.running.clone()),
                    edits,
                    warnings,
                }
            }
        };
        drop(self.reloads.send(reload));
    }
}
