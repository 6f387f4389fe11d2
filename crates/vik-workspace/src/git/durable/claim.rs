//! Takes an issue over for an attempt, with the work that another machine saved.

use vik_base::failpoint;

use super::remote::{RemoteState, text};
use super::state::State;
use super::{Durable, DurableRecord, DurableResult, GitError, MAX_TRIES, SavedWork};
use crate::git::View;
use crate::git::output;

/// The index of restored work in the view, until its files are there.
const RESTORED_INDEX: &str = "restored-index";

impl Durable<'_> {
    /// Makes the attempt the one that holds the issue, so that no earlier one can save or push any
    /// more, and restores the work that was saved last if the workspace does not have it.
    ///
    /// # Errors
    /// Returns an error if the remote cannot be read or written, or the work cannot be restored.
    pub fn claim(&self) -> Result<DurableResult, GitError> {
        let mut record = self.read_record()?;
        let view = self.open_view()?;
        let state = match self.hold(&view)? {
            Ok(state) => state,
            Err(holder) => return Ok(DurableResult::Fenced { holder }),
        };
        failpoint::reach("work_claimed");
        let mut restored = None;
        if let Some(saved) = state.saved.filter(|saved| !record.has(saved)) {
            let has_it = record.restoring.is_none() && !record.is_new && {
                let own = self.snapshot(&view)?.work;
                let is_saved = record
                    .saved
                    .as_ref()
                    .is_some_and(|saved| saved.is_same_work(&own));
                let is_newest = saved.is_same_work(&own);
                if !is_saved && !is_newest {
                    return Ok(DurableResult::Diverged { saved });
                }
                is_newest
            };
            if !has_it {
                self.restore(&view, &mut record, &saved)?;
                restored = Some(saved.clone());
            }
            record.saved = Some(saved);
        }
        let record = DurableRecord {
            claimed: Some(self.number),
            saved: record.saved,
            sending: record.sending,
            ..DurableRecord::default()
        };
        record.write(self.layout, self.issue)?;
        Ok(DurableResult::Claimed {
            work_ref: self.work_ref.clone(),
            restored,
        })
    }

    /// Raises the number in the ref to that of the attempt. Returns the number of a newer attempt as
    /// an error.
    fn hold(&self, view: &View) -> Result<Result<State, u64>, GitError> {
        for _ in 0..MAX_TRIES {
            let found = self.read_remote(view)?;
            let (id, saved) = match found {
                Some(found) if found.state.holder > self.number => return Ok(Err(found.state.holder)),
                Some(found) if found.state.holder == self.number => return Ok(Ok(found.state)),
                Some(RemoteState { id, state }) => (Some(id), state.saved),
                None => (None, None),
            };
            let state = State::new(self.number, saved);
            let next = self.write_state(view, &state)?;
            if self.push(view, id.as_deref(), Some(&next))? {
                return Ok(Ok(state));
            }
        }
        Err(self.busy())
    }

    /// Puts saved work into the workspace: its branch, commits, staged files and files. Nothing in
    /// the workspace is lost that is not saved, apart from ignored files in the way.
    fn restore(&self, view: &View, record: &mut DurableRecord, saved: &SavedWork) -> Result<(), GitError> {
        view.check_branch(self.record, saved.branch.as_deref())?;
        let is_new = record.is_new;
        record.restoring = Some(saved.clone());
        record.write(self.layout, self.issue)?;
        let index = view.folder.join(RESTORED_INDEX);
        let staged = saved.index.as_ref().or(saved.head.as_ref());
        let mut read = view.git(["read-tree", staged.map_or("--empty", String::as_str)]);
        output(read.env("GIT_INDEX_FILE", &index))?;
        if !is_new {
            // What is there was saved, and may have been removed since.
            view.make_index()?;
            output(&mut view.git_in_work_tree(["clean", "--force", "-d", "--quiet"]))?;
        }
        let files = view
            .checked_commit(&saved.files)?
            .ok_or_else(|| GitError::Object {
                object: saved.files.clone(),
                problem: "is missing",
            })?;
        view.prepare_reset(&files)?;
        let reset = ["reset", "--hard", "--quiet", &files];
        output(view.git_in_work_tree(reset).env("GIT_ATTR_SOURCE", &files))?;
        failpoint::reach("work_files_restored");
        // The command exits with 1 if files differ from the staged ones.
        let mut refresh = view.refresh();
        let _ = refresh.env("GIT_INDEX_FILE", &index).status();
        let own = view.folder.join("index");
        std::fs::rename(&index, &own).map_err(GitError::io("write", &own))?;
        view.copy_objects_to_workspace()?;
        view.check_out_in_workspace(saved.branch.as_deref(), saved.head.as_deref())?;
        failpoint::reach("work_restored");
        Ok(())
    }
}

impl View {
    /// Returns the branch that is checked out in the workspace; `None` for a detached `HEAD`.
    pub(super) fn branch(&self) -> Result<Option<String>, GitError> {
        let head = self.git(["symbolic-ref", "--quiet", "HEAD"]).output();
        let head = head.map_err(GitError::io("read", &self.folder.join("HEAD")))?;
        let name = String::from_utf8_lossy(&head.stdout).into_owned();
        Ok(name.trim_end().strip_prefix("refs/heads/").map(str::to_owned))
    }

    /// Checks that a branch can be checked out in the workspace.
    fn check_branch(&self, record: &crate::git::Record, branch: Option<&str>) -> Result<(), GitError> {
        let Some(branch) = branch else { return Ok(()) };
        text(&mut self.git(["check-ref-format", &format!("refs/heads/{branch}")]))?;
        let is_linked = matches!(
            &record.place,
            crate::git::repository::RepositoryLocation::Linked { own, common } if own != common
        );
        if is_linked && record.branch.as_deref() != Some(branch) {
            let reason = format!(
                "the saved work is on the branch `{branch}`, and the workspace is a linked work tree on another one"
            );
            return Err(GitError::NotUsable(reason));
        }
        Ok(())
    }
}
