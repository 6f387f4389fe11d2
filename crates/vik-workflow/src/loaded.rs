//! A workflow that can be run, with all texts that belong to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
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

impl LoadedWorkflow {
    /// Returns the digest of all texts of the workflow, in hexadecimal: on every machine that has the
    /// same files, in whatever folder, it is the same.
    pub fn digest(&self) -> String {
        digest(&self.path, &self.texts)
    }

    /// Returns the files from which it was loaded, with their texts: the workflow file and its prompt
    /// files. The paths are absolute.
    pub fn texts(&self) -> impl Iterator<Item = (&Path, &str)> {
        let texts = self.texts.iter();
        texts.filter_map(|(path, text)| Some((path.as_path(), text.as_deref()?)))
    }
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

fn digest(path: &Path, texts: &Texts) -> String {
    let dir = path.parent();
    let named = texts.iter().map(|(path, text)| {
        let below = dir.and_then(|dir| path.strip_prefix(dir).ok());
        let name = below.map_or_else(|| path.file_name().unwrap_or_default(), Path::as_os_str);
        (name.as_encoded_bytes(), text.as_ref().map(String::as_bytes))
    });
    // Files elsewhere may be in another order on another machine.
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    let mut digest = Sha256::new();
    for (name, text) in named {
        for part in [Some(name), text] {
            // A missing file is another one than an empty file.
            let len = part.map_or(u64::MAX, |part| part.len() as u64);
            digest.update(len.to_be_bytes());
            digest.update(part.unwrap_or_default());
        }
    }
    digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

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

#[cfg(test)]
mod tests {
    fn digest(path: &str, texts: &[(&str, Option<&str>)]) -> String {
        let text = |(path, text): &(&str, Option<&str>)| (path.into(), text.map(str::to_owned));
        super::digest(path.as_ref(), &texts.iter().map(text).collect())
    }

    #[test]
    fn digest_depends_on_all_texts_and_not_on_the_folder() {
        let here = [
            ("/a/w.yml", Some("w")),
            ("/a/b/prompt", Some("p")),
            ("/0/x", Some("1")),
        ];
        let there = [
            ("/c/w.yml", Some("w")),
            ("/c/b/prompt", Some("p")),
            ("/d/x", Some("1")),
        ];
        let same = digest("/a/w.yml", &here);
        assert_eq!(same.len(), 64);
        assert_eq!(digest("/c/w.yml", &there), same);
        let others = [
            ("/a/w.yml", Some("v")),
            ("/a/b/prompt", Some("")),
            ("/a/b/prompt", None),
            ("/a/b/prompt2", Some("p")),
            ("/0/x", Some("2")),
        ];
        let mut digests = vec![same];
        for other in others {
            let mut texts = here.to_vec();
            texts.retain(|(path, _)| !other.0.starts_with(path));
            texts.push(other);
            digests.push(digest("/a/w.yml", &texts));
        }
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 6, "{digests:?}");
    }
}
