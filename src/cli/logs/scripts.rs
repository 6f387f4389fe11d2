//! Reads the scripts that ran around an agent, and their output.

use std::cell::OnceCell;
use std::path::Path;

use jiff::Timestamp;
use vik_base::report::clean;
use vik_session::attempt::PROMPT;
use vik_session::secrets::masked::read_tail;
use vik_store::{AttemptFiles, Step, timed_steps};

use super::raw;
use crate::cli::warn;

/// The maximum size that is read of the output of a script, in bytes.
const OUTPUT_BYTES: u64 = 256 * 1024;

/// The last run of a script, which has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptRun {
    pub(super) name: String,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    /// The reason for its failure.
    pub(super) failure: Option<String>,
}

/// Returns the scripts of an attempt that have ended, in their order.
pub(super) fn ended(files: &AttemptFiles) -> Vec<ScriptRun> {
    let mut started: Vec<(Timestamp, String)> = Vec::new();
    let mut ended: Vec<ScriptRun> = Vec::new();
    for (at, step) in timed_steps(&files.journal()) {
        match step {
            Step::Started { script } => {
                started.retain(|(_, name)| *name != script);
                ended.retain(|run| run.name != script);
                started.push((at, script));
            }
            Step::Finished { script, trouble } => {
                let started = started.iter().find(|(_, name)| *name == script);
                ended.push(ScriptRun {
                    started_at: started.map_or(at, |(at, _)| *at),
                    ended_at: at,
                    failure: trouble.map(|trouble| {
                        let reason = raw::masked(trouble.reason.as_bytes()).into_owned();
                        clean(String::from_utf8_lossy(&reason).trim_end()).into_owned()
                    }),
                    name: script,
                });
            }
            _ => {}
        }
    }
    // The output of successful prompt commands is part of the prompt.
    ended.retain(|run| run.name != PROMPT || run.failure.is_some());
    ended
}

/// Reads the output of scripts. The files contain secrets as the script printed them.
pub(super) struct ScriptOutputs<'w> {
    workflow: &'w Path,
    /// Whether the secrets are known, and thus masked.
    is_maskable: OnceCell<bool>,
}

impl<'w> ScriptOutputs<'w> {
    pub(super) fn new(workflow: &'w Path) -> Self {
        Self {
            workflow,
            is_maskable: OnceCell::new(),
        }
    }

    /// Returns the end of the output of a script, with its secrets masked; empty if a secret is not
    /// readable and therefore not masked.
    pub(super) fn read(&self, files: &AttemptFiles, script: &str) -> String {
        let path = files.hook(script);
        let is_empty = path.metadata().map_or(true, |file| file.len() == 0);
        if is_empty || !*self.is_maskable.get_or_init(|| self.resolve_secrets()) {
            return String::new();
        }
        read_tail(&path, OUTPUT_BYTES)
    }

    fn resolve_secrets(&self) -> bool {
        let resolved = raw::resolve_secrets(self.workflow);
        if let Err(failure) = &resolved {
            let reason = failure.body().message;
            warn(&format!(
                "warning: the output of scripts is not shown: {reason}\n"
            ));
        }
        resolved.is_ok()
    }
}
