//! How models of this machine call tools, learnt from their first answers with a call.
//!
//! A server on this machine may have a model of any name. The first call of such a model shows
//! whether it uses the form of the protocol or writes calls as text or in fences; that is remembered
//! in `models.json` beside the sessions, so that the next run starts in the right form.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;

use super::protocol::{ToolCalls, parameters};
use crate::config::Settings;
use crate::conversation::Turn;
use crate::fences;
use crate::session::Store;

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// The maximum number of remembered models.
const MAX_MODELS: usize = 1000;

/// The place where the form of one model is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedForm {
    file: PathBuf,
    /// The address of the server and the name of the model.
    key: String,
}

impl LearnedForm {
    /// Returns the place for a model if nothing else decides about its form: it is on this machine,
    /// its name gives no size, and the settings do not name its form.
    pub fn of(settings: &Settings, base_url: &str, model: &str) -> Option<Self> {
        let is_set = settings
            .models
            .get(model)
            .is_some_and(|own| own.tool_calls.is_some());
        if is_set || parameters(model).is_some() || !super::catalog::is_loopback(base_url) {
            return None;
        }
        Some(Self {
            file: Store::of_user().ok()?.beside("models.json"),
            key: format!("{base_url} {model}"),
        })
    }

    /// Returns a place in a file of a test.
    #[cfg(test)]
    pub(crate) fn at(file: PathBuf, key: &str) -> Option<Self> {
        Some(Self {
            file,
            key: key.to_owned(),
        })
    }

    /// Returns the remembered form. An unreadable file counts as empty.
    pub fn remembered(&self) -> Option<ToolCalls> {
        self.read().get(&self.key).copied()
    }

    /// Remembers the form.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remember(&self, form: ToolCalls) -> io::Result<()> {
        let mut known = self.read();
        if known.len() >= MAX_MODELS {
            known.clear();
        }
        known.insert(self.key.clone(), form);
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = self.file.with_extension(format!("{}.new", std::process::id()));
        fs::write(&new, serde_json::to_vec_pretty(&known)?)?;
        fs::rename(&new, &self.file)
    }

    fn read(&self) -> BTreeMap<String, ToolCalls> {
        let Ok(file) = fs::File::open(&self.file) else {
            return BTreeMap::new();
        };
        serde_json::from_reader(file.take(MAX_BYTES)).unwrap_or_default()
    }
}

/// Returns the form that an answer shows: that of its calls, or of the files and commands that it
/// contains in fences. Code that is only shown to the reader is neither, and shows nothing.
pub fn shown_by(turn: &Turn) -> Option<ToolCalls> {
    let mut calls = turn.tool_calls();
    if let Some(first) = calls.next() {
        let is_native = !first.repaired || calls.any(|call| !call.repaired);
        return Some(if is_native {
            ToolCalls::Native
        } else {
            ToolCalls::Files
        });
    }
    let has_calls = fences::read(turn.clone(), None, 0).tool_calls().next().is_some();
    has_calls.then_some(ToolCalls::Files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::{Block, ToolCall};

    #[test]
    fn form_is_remembered_for_each_server_and_model() {
        let dir = tempfile::tempdir().unwrap();
        let place = |key: &str| LearnedForm {
            file: dir.path().join("new/models.json"),
            key: key.to_owned(),
        };
        assert_eq!(place("a").remembered(), None);
        place("a").remember(ToolCalls::Files).unwrap();
        place("b").remember(ToolCalls::Native).unwrap();
        assert_eq!(place("a").remembered(), Some(ToolCalls::Files));
        assert_eq!(place("b").remembered(), Some(ToolCalls::Native));
        fs::write(dir.path().join("new/models.json"), "{torn").unwrap();
        assert_eq!(place("a").remembered(), None);
        place("a").remember(ToolCalls::Native).unwrap();
        assert_eq!(place("a").remembered(), Some(ToolCalls::Native));
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
    }

    #[test]
    fn only_an_unknown_model_of_this_machine_is_learnt() {
        let mut settings = Settings::default();
        let local = "http://127.0.0.1:8080/v1";
        assert!(LearnedForm::of(&settings, local, "my-model").is_some());
        assert_eq!(LearnedForm::of(&settings, local, "my-7b"), None);
        assert_eq!(
            LearnedForm::of(&settings, "https://api.example.com", "my-model"),
            None
        );
        let own = settings.models.entry("my-model".to_owned()).or_default();
        own.tool_calls = Some(ToolCalls::Native);
        assert_eq!(LearnedForm::of(&settings, local, "my-model"), None);
    }

    #[test]
    fn calls_and_fences_show_the_form() {
        let call = |repaired| {
            Block::ToolCall(ToolCall {
                repaired,
                ..ToolCall::new("1", "list_dir", json!({}))
            })
        };
        let of = |blocks: Vec<Block>| {
            shown_by(&Turn {
                blocks,
                ..Turn::default()
            })
        };
        for text in ["It is done.", "It adds both:\n```py\na + b\n```\n"] {
            assert_eq!(of(vec![Block::text(text)]), None);
        }
        for text in ["a.py\n```py\nx\n```", "```sh\nmv a b\n```"] {
            assert_eq!(of(vec![Block::text(text)]), Some(ToolCalls::Files));
        }
        assert_eq!(of(vec![call(true)]), Some(ToolCalls::Files));
        assert_eq!(of(vec![call(true), call(false)]), Some(ToolCalls::Native));
    }
}
