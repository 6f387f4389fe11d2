//! Applies a patch to files: first in memory, then all files at once.
//!
//! If one file cannot be replaced, the previous ones get their old content back. Only a crash of
//! the machine in between leaves a part; directories created for new files are kept.

use std::path::{Path, PathBuf};

use super::apply::apply;
use super::parse::{Action, FileChange};
use crate::tools::files::{StoredFile, TemporaryFile, load, remove, replaceable};
use crate::tools::memory::digest;
use crate::tools::root::{ResolvedPath, RootError};
use crate::tools::{ToolContext, ToolError};

/// A file in a patch.
#[derive(Debug)]
pub(super) struct Staged {
    /// Its path as given.
    pub(super) path: PathBuf,
    resolved: PathBuf,
    /// The old content; `None` if the file does not exist.
    pub(super) before: Option<StoredFile>,
    /// The new content; `None` if the file is removed.
    pub(super) after: Option<Vec<u8>>,
    /// The mode of a moved file.
    mode: Option<u32>,
}

impl Staged {
    fn changes(&self) -> bool {
        self.before.as_ref().map(|stored| &stored.bytes) != self.after.as_ref()
    }
}

/// The files of a patch with all changes so far.
pub(super) struct Stage<'a> {
    context: &'a ToolContext<'a>,
    files: Vec<Staged>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(context: &'a ToolContext<'a>) -> Self {
        Self {
            context,
            files: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, change: &FileChange) -> Result<(), ToolError> {
        let path = Path::new(&change.path);
        match &change.action {
            Action::Add(content) => self.create(path, content.clone().into_bytes(), None),
            Action::Delete => {
                self.not_a_link(path)?;
                let index = self.open(path)?;
                self.present(index)?;
                self.files[index].after = None;
                Ok(())
            }
            Action::Update { to, hunks } => {
                let index = self.open(path)?;
                let text = std::str::from_utf8(self.present(index)?)
                    .map_err(|_| failed(path, "it is not UTF-8 text"))?;
                let text = apply(text, hunks).map_err(|misfit| failed(path, misfit))?;
                match to {
                    None => self.files[index].after = Some(text.into_bytes()),
                    Some(to) => {
                        self.not_a_link(path)?;
                        self.files[index].after = None;
                        let mode = self.files[index].before.as_ref().map(|stored| stored.mode);
                        self.create(Path::new(to), text.into_bytes(), mode)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the changed files.
    pub(super) fn finish(mut self) -> Vec<Staged> {
        self.files.retain(Staged::changes);
        self.files
    }

    fn create(&mut self, path: &Path, content: Vec<u8>, mode: Option<u32>) -> Result<(), ToolError> {
        let index = self.open(path)?;
        let file = &mut self.files[index];
        if file.after.as_ref().is_some_and(|there| !there.is_empty()) {
            return Err(failed(path, "it exists already; update it, or delete it first"));
        }
        file.after = Some(content);
        file.mode = mode;
        Ok(())
    }

    /// Returns the current content, after the changes so far.
    fn present(&self, index: usize) -> Result<&[u8], ToolError> {
        let file = &self.files[index];
        file.after
            .as_deref()
            .ok_or_else(|| failed(&file.path, "there is no such file"))
    }

    /// Finds the file among the earlier ones, or reads it.
    fn open(&mut self, path: &Path) -> Result<usize, ToolError> {
        let resolved = self.context.root.resolve(path)?;
        if let Some(index) = self.files.iter().position(|file| file.resolved == resolved) {
            return Ok(index);
        }
        let before = match self.context.root.place_to_change(path) {
            Err(error) if error.is_not_found() => None,
            place => {
                let place = place?;
                let stored = load(&place, path)?;
                if let Some(stored) = &stored {
                    replaceable(self.context, &place, path, stored)?;
                }
                stored
            }
        };
        self.files.push(Staged {
            path: path.to_owned(),
            resolved,
            after: before.as_ref().map(|stored| stored.bytes.clone()),
            before,
            mode: None,
        });
        Ok(self.files.len() - 1)
    }

    /// Refuses a link: removing its path would remove the file that it points to.
    fn not_a_link(&self, path: &Path) -> Result<(), ToolError> {
        let there = self.context.root.path().join(path).symlink_metadata();
        if there.is_ok_and(|meta| meta.is_symlink()) {
            return Err(failed(
                path,
                "it is a symbolic link; name the file that it leads to",
            ));
        }
        Ok(())
    }
}

fn failed(path: &Path, reason: impl std::fmt::Display) -> ToolError {
    ToolError::Failed(format!("nothing was changed. {}: {reason}", path.display()))
}

/// Replaces all files, or none.
pub(super) fn commit(context: &ToolContext<'_>, staged: &[Staged]) -> Result<Vec<String>, ToolError> {
    let places: Vec<ResolvedPath> = staged
        .iter()
        .map(|file| match file.after {
            Some(_) => context.root.place_to_create(&file.path),
            None => context.root.place_to_change(&file.path),
        })
        .collect::<Result<_, RootError>>()?;
    // Everything that needs space is written before any file is replaced.
    let mut steps = Vec::with_capacity(staged.len());
    for (file, place) in staged.iter().zip(&places) {
        let temporary = match &file.after {
            Some(after) => {
                let mode = file.mode.or(file.before.as_ref().map(|stored| stored.mode));
                Some(TemporaryFile::write(place, &file.path, after, mode)?)
            }
            None => None,
        };
        steps.push((file, place, temporary));
    }
    let mut done = Vec::with_capacity(steps.len());
    for (file, place, temporary) in steps {
        let outcome = match temporary {
            Some(temporary) => temporary.take_place(),
            None => remove(place, &file.path),
        };
        if let Err(error) = outcome {
            let lost = roll_back(&done);
            return Err(ToolError::Failed(format!("{}{error}", lost_files_message(&lost))));
        }
        done.push((file, place));
    }
    Ok(done
        .into_iter()
        .map(|(file, place)| {
            match &file.after {
                Some(after) => context.files.remember(&place.resolved, digest(after)),
                None => context.files.forget(&place.resolved),
            }
            context.root.shown(&file.path)
        })
        .collect())
}

/// Restores the old content. Returns the files that could not be restored.
fn roll_back<'a>(done: &[(&'a Staged, &ResolvedPath)]) -> Vec<&'a Path> {
    let restore = |file: &Staged, place: &ResolvedPath| match &file.before {
        Some(stored) => {
            TemporaryFile::write(place, &file.path, &stored.bytes, Some(stored.mode))?.take_place()
        }
        None => remove(place, &file.path),
    };
    done.iter()
        .rev()
        .filter(|(file, place)| restore(file, place).is_err())
        .map(|(file, _)| file.path.as_path())
        .collect()
}

fn lost_files_message(lost: &[&Path]) -> String {
    if lost.is_empty() {
        return "nothing was changed. ".to_owned();
    }
    let lost: Vec<_> = lost.iter().map(|path| path.display().to_string()).collect();
    format!(
        "the patch was undone, but these could not be put back: {}. ",
        lost.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::patch::parse::parse;
    use crate::tools::testing::Bench;

    #[test]
    fn failed_commit_rolls_back_the_other_files() {
        let bench = Bench::new();
        bench.put("a", "a\n");
        bench.put("gone", "gone\n");
        bench.with_context(|context| {
            let patch = "*** Begin Patch\n*** Update File: a\n-a\n+b\n*** Delete File: gone\n*** Add File: new\n+n\n\
                         *** Add File: z\n+z\n*** End Patch\n";
            let mut stage = Stage::new(context);
            for change in parse(patch).unwrap() {
                stage.add(&change).unwrap();
            }
            let staged = stage.finish();
            // A directory takes the last path in the meantime.
            std::fs::create_dir(bench.path("z")).unwrap();
            let error = commit(context, &staged).unwrap_err().to_string();
            assert!(error.starts_with("nothing was changed. cannot write z"), "{error}");
        });
        assert_eq!(
            (bench.get("a"), bench.get("gone")),
            ("a\n".to_owned(), "gone\n".to_owned())
        );
        assert!(!bench.path("new").exists());
        let left: Vec<_> = std::fs::read_dir(bench.dir.path()).unwrap().collect();
        assert_eq!(left.len(), 3, "no temporary file is left: {left:?}");
    }
}
