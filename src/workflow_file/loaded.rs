//! A workflow that can be run, with every text that belongs to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use vik_core::workflow::{Edit, PromptSource, Workflow};

use super::read_text;
use crate::report::Failure;
use crate::workspace::resolve_path;

/// A workflow as it was loaded. What happens to its files later does not change it.
#[derive(Clone, Debug)]
pub struct LoadedWorkflow {
    /// The workflow file, absolute.
    pub path: PathBuf,
    /// What it says.
    pub workflow: Arc<Workflow>,
    /// The texts of its prompt files.
    pub prompts: Arc<Prompts>,
    /// When it was loaded.
    pub loaded_at: Timestamp,
    /// What it was made from.
    pub(super) texts: Texts,
}

/// A workflow that cannot be used.
#[derive(Debug)]
pub struct Rejected {
    /// When it was read.
    pub at: Timestamp,
    /// What is wrong, each thing on one line: `workflow.yml:3:5: error: …`.
    pub findings: Vec<String>,
    /// The same for people.
    pub failure: Failure,
}

/// The text of each file that was read; `None` where it could not be.
pub(super) type Texts = BTreeMap<PathBuf, Option<String>>;

/// The texts of the prompt files of one workflow, by the names it has for them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Prompts(pub(super) BTreeMap<String, String>);

impl Prompts {
    /// The text of a prompt. The file itself is looked at only where this workflow does not name it, as for a stage that
    /// an earlier daemon began.
    ///
    /// # Errors
    /// With words for people when the file cannot be read.
    pub fn source(&self, workflow_dir: &Path, prompt: &PromptSource) -> Result<String, String> {
        match prompt {
            PromptSource::Inline(text) => Ok(text.clone()),
            PromptSource::File(file) => match self.0.get(file) {
                Some(text) => Ok(text.clone()),
                None => {
                    let path = resolve_path(workflow_dir, file);
                    read_text(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
                }
            },
        }
    }

    /// The prompt files of both whose texts differ.
    pub(super) fn edits(&self, new: &Self) -> Vec<Edit> {
        let both = new
            .0
            .iter()
            .filter_map(|(file, text)| Some((file, self.0.get(file)?, text)));
        both.filter(|(_, old, new)| old != new)
            .map(|(file, old, new)| Edit::of_text(file, old, new))
            .collect()
    }
}
