//! The workflow while a daemon runs: its files are watched, and what was good is kept.

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

/// One save makes several events: they are over when nothing came for so long.
const QUIET: Duration = Duration::from_millis(100);

/// Files that change without end are looked at nevertheless.
const LONGEST_UNREST: Duration = Duration::from_secs(1);

/// How often files are looked at that cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How often files are looked at that are watched: no event tells that a folder far above them was moved.
const WATCHED_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// What became of the workflow.
#[derive(Debug)]
pub enum Reload {
    /// Nothing changed since the last look. Told only where it was asked for.
    Unchanged,
    /// It is good, and to be used from now on.
    Good {
        /// The workflow; what needs a restart has its running value.
        loaded: Box<LoadedWorkflow>,
        /// What is different from the one that runs. None after an edit that says the same in other words, or that
        /// takes back a bad one.
        edits: Vec<Edit>,
        /// Warnings, as text for people; empty without any.
        warnings: String,
    },
    /// It cannot be used, and why: the last good one stays.
    Bad(Rejected),
}

enum Signal {
    /// Something happened to these paths; none: nobody knows where.
    Touched(Vec<PathBuf>),
    /// Somebody wants to know how it stands.
    Asked,
    End,
}

/// Watches the workflow file and its prompt files, on a thread of its own: a disk that does not answer holds up nobody.
#[derive(Debug)]
pub struct Watch {
    signals: Sender<Signal>,
    reloads: UnboundedReceiver<Reload>,
}

impl Watch {
    /// Watches the files of the workflow that runs. What changed since it was loaded is told first.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(running: LoadedWorkflow) -> io::Result<Self> {
        Self::with(running, DirWatcher::open, POLL_INTERVAL)
    }

    fn with(
        running: LoadedWorkflow,
        eyes: impl FnOnce(Sender<Signal>) -> DirWatcher,
        poll: Duration,
    ) -> io::Result<Self> {
        let (signals, heard) = channel();
        let (tell, reloads) = unbounded_channel();
        let mut watcher = Watcher {
            texts: running.texts.clone(),
            running,
            dirs: eyes(signals.clone()),
            poll,
            reloads: tell,
        };
        std::thread::Builder::new()
            .name("vik-workflow".to_owned())
            .spawn(move || watcher.run(&heard))?;
        Ok(Self { signals, reloads })
    }

    /// Has the files looked at now; the answer comes by [`Watch::next`], also when nothing changed.
    pub fn refresh(&self) {
        // The thread ends only with this.
        drop(self.signals.send(Signal::Asked));
    }

    /// The next thing to know. Cancelling it loses nothing.
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
    /// What was last read, good or bad.
    texts: Texts,
    dirs: DirWatcher,
    poll: Duration,
    reloads: UnboundedSender<Reload>,
}

impl Watcher {
    fn run(&mut self, heard: &Receiver<Signal>) {
        let mut asked = false;
        loop {
            let changed = self.has_changed();
            if changed {
                self.load();
            } else if asked {
                drop(self.reloads.send(Reload::Unchanged));
            }
            // What is read may name other files, and those may have changed before they were watched.
            let unrest = changed && self.has_changed();
            match self.wait(heard, unrest) {
                Some(next) => asked = next,
                None => return,
            }
        }
    }

    /// Waits for a reason to look; says whether somebody asked. `None` is the end.
    fn wait(&self, heard: &Receiver<Signal>, unrest: bool) -> Option<bool> {
        let due = Instant::now()
            + if self.dirs.watches_all() {
                WATCHED_POLL_INTERVAL
            } else {
                self.poll
            };
        let mut unrest = unrest.then(Instant::now);
        loop {
            let until = match unrest {
                None => due,
                Some(since) => (Instant::now() + QUIET).min(since + LONGEST_UNREST),
            };
            match heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Signal::Asked) => return Some(true),
                Ok(Signal::Touched(paths)) if self.dirs.concern(&paths) => {
                    unrest.get_or_insert_with(Instant::now);
                }
                // Else a busy folder would put the next look off for ever.
                Ok(Signal::Touched(_)) if unrest.is_some() || Instant::now() < due => {}
                Ok(Signal::Touched(_)) | Err(RecvTimeoutError::Timeout) => return Some(false),
                Ok(Signal::End) | Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Whether a file is not as it was read last. First aim, then read: what changes in between makes an event.
    fn has_changed(&mut self) -> bool {
        self.dirs.aim(self.texts.keys());
        let mut texts = self.texts.iter();
        texts.any(|(path, text)| read_text(path).ok() != *text)
    }

    /// Loads the workflow and tells what came of it.
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
