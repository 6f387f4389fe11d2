//! A workflow that can be run, with all texts that belong to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use vik_base::report::Failure;
use vik_core::workflow::{Edit, PromptSource, Workflow};
use vik_workspace::resolve_path;

use super::read_text;

/// A loaded workflow. Later changes of its files do not affect it.
#[derive(Clone, Debug)]
pub struct LoadedWorkflow {
    /// The absolute path of the workflow file.
    pub path: PathBuf,
    pub workflow: Arc<Workflow>,
    pub prompts: Arc<Prompts>,
    pub loaded_at: Timestamp,
    /// The texts from which it was loaded.
    pub(super) texts: Texts,
}

/// A workflow that cannot be used.
#[derive(Debug)]
pub struct Rejected {
    pub at: Timestamp,
    /// The findings, one line each: `workflow.yml:3:5: error: …`.
    pub findings: Vec<String>,
    /// The same for people.
    pub failure: Failure,
}

/// The text of each file; `None` if it could not be read.
pub(super) type Texts = BTreeMap<PathBuf, Option<String>>;

/// The texts of the prompt files of one workflow, by their names in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Prompts(pub(super) BTreeMap<String, String>);

impl Prompts {
    /// Returns the text of a prompt. The file is read only if this workflow does not name it, as
    /// for a stage that an earlier daemon started.
    ///
    /// # Errors
    /// With a message for people when the file cannot be read.
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

    /// Compares the prompt files that both versions have.
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
