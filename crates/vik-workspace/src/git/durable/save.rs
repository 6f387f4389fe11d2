//! Saves the work of a workspace.

use vik_base::failpoint;

use super::remote::{commit, text};
use super::state::State;
use super::{Durable, DurableResult, GitError, MAX_TRIES, SavedWork};
use crate::git::View;
use crate::git::output;
use crate::git::run::run_with_input;

/// The work of a workspace, and what of it cannot be saved.
pub(super) struct Snapshot {
    pub(super) work: SavedWork,
    /// Folders with repositories of their own.
    pub(super) left_out: Vec<String>,
}

impl Durable<'_> {
    /// Saves the commits and files of the workspace to the remote, if they are not there.
    ///
    /// # Errors
    /// Returns an error if the work cannot be read, or the remote does not accept it.
    pub fn save(&self) -> Result<DurableResult, GitError> {
        let mut record = self.read_record()?;
        if record.claimed != Some(self.number) {
            return Ok(DurableResult::NotClaimed);
        }
        let view = self.open_view()?;
        let Snapshot { work, left_out } = self.snapshot(&view)?;
        for _ in 0..MAX_TRIES {
            let found = self.read_remote(&view)?;
            let Some(found) = found.filter(|found| found.state.holder == self.number) else {
                let holder = self.read_remote(&view)?.map_or(0, |found| found.state.holder);
                return Ok(DurableResult::Fenced { holder });
            };
            let saved = found.state.saved.as_ref();
            let is_new = !saved.is_some_and(|saved| saved.is_same_work(&work));
            if is_new {
                record.sending = Some(work.clone());
                record.write(self.layout, self.issue)?;
                failpoint::reach("work_noted");
                let state = State::new(self.number, Some(work.clone()));
                let next = self.write_state(&view, &state)?;
                if !self.push(&view, Some(&found.id), Some(&next))? {
                    continue;
                }
                failpoint::reach("work_pushed");
            }
            record.saved = if is_new {
                Some(work.clone())
            } else {
                found.state.saved
            };
            record.sending = None;
            record.write(self.layout, self.issue)?;
            return Ok(DurableResult::Saved {
                work_ref: self.work_ref.clone(),
                work,
                is_new,
                left_out,
            });
        }
        Err(self.busy())
    }

    /// Writes commits with the work of the workspace to the view, whose index has all files
    /// afterwards.
    pub(super) fn snapshot(&self, view: &View) -> Result<Snapshot, GitError> {
        view.make_index()?;
        let head = view.commit("HEAD")?;
        let parents: Vec<&str> = head.as_deref().into_iter().collect();
        // There is no tree of an index with conflicts.
        let staged = text(&mut view.git(["write-tree"])).ok();
        let index = staged
            .as_deref()
            .map(|tree| commit(view, tree, &parents, "staged files"))
            .transpose()?;
        let left_out = self.add_files(view)?;
        let all = text(&mut view.git(["write-tree"]))?;
        let parents: Vec<&str> = parents.into_iter().chain(index.as_deref()).collect();
        let files = commit(view, &all, &parents, "all files")?;
        let committed = match &head {
            Some(head) => Some(text(&mut view.git(["rev-parse", &format!("{head}^{{tree}}")]))?),
            None => None,
        };
        let is_uncommitted = staged != committed || committed.as_ref() != Some(&all);
        let work = SavedWork {
            number: self.number,
            branch: view.branch()?,
            head,
            index,
            files,
            is_uncommitted,
        };
        Ok(Snapshot { work, left_out })
    }

    /// Adds all changed and new files to the index of the view. Git must not do so itself: `git add`
    /// runs git in repositories inside of the work tree, with their settings. Returns the folders of
    /// such repositories.
    fn add_files(&self, view: &View) -> Result<Vec<String>, GitError> {
        let changed = [
            "diff-files",
            "-z",
            "--name-only",
            "--no-renames",
            "--ignore-submodules=all",
        ];
        let changed = output(&mut view.git_in_work_tree(changed))?;
        let new = ["ls-files", "-z", "--others", "--exclude-standard", "--full-name"];
        let new = output(&mut view.git_in_work_tree(new))?;
        let mut left_out: Vec<String> = self.record.submodules.keys().cloned().collect();
        let mut paths = changed.stdout;
        for path in new.stdout.split_inclusive(|byte| *byte == 0) {
            match path.strip_suffix(b"/\0") {
                Some(folder) => left_out.push(String::from_utf8_lossy(folder).into_owned()),
                None => paths.extend_from_slice(path),
            }
        }
        let update = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
        run_with_input(&mut view.git_in_work_tree(update), &paths)?;
        Ok(left_out)
    }
}
