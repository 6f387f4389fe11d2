//! Fills a view with the objects and refs of a workspace.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{CHECKED_FOLDER, Tracking, View};
use crate::fs::{create_private_dir_all, write_private};
use crate::git::files::is_id;
use crate::git::files::{self, Takeover};
use crate::git::record::Record;
use crate::git::repository::{Head, is_ref};
use crate::git::{GitError, settings};

/// The hook through which Git LFS sends its files. It is the only hook that runs.
const LFS_PRE_PUSH: &[u8] = b"#!/bin/sh\nexec git lfs pre-push \"$@\"\n";

/// Returns whether a ref (by its name below `refs/`) is left out: refs that replace objects, and
/// refs that imitate or hide recorded refs.
fn is_left_out(name: &str, record: &Record, tracking: Tracking) -> bool {
    let (kind, suffix) = name.split_once('/').unwrap_or((name, ""));
    match tracking {
        Tracking::OfWorkspace => kind == "replace",
        Tracking::OfRecord => {
            let shadows = |remote: &String| {
                suffix
                    .strip_prefix(remote.as_str())
                    .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('/'))
            };
            !matches!(kind, "heads" | "tags") || record.remotes.keys().any(shadows)
        }
    }
}

/// Returns whether a file of the folder `objects` contains objects or the index of their pack.
/// Files are excluded that lead to other repositories, or that claim without proof what commits
/// contain.
fn is_object(path: &Path) -> bool {
    let name = path.to_str().unwrap_or_default();
    let left_out = ["info/", "pack/multi-pack-index"];
    !left_out.iter().any(|start| name.starts_with(start))
}

impl View {
    pub(super) fn fill(&self, record: &Record, tracking: Tracking) -> Result<(), GitError> {
        for folder in [
            "refs",
            "hooks",
            "info",
            "lfs",
            "objects/info",
            "objects/pack",
            "taken",
            CHECKED_FOLDER,
            "own",
        ] {
            let folder = self.folder.join(folder);
            create_private_dir_all(&folder).map_err(GitError::io("make", &folder))?;
        }
        self.write("config", settings::of_record(record).text())?;
        self.write("info/exclude", &record.exclude)?;
        if !record.sparse_checkout.is_empty() {
            self.write("info/sparse-checkout", &record.sparse_checkout)?;
        }
        self.take_objects(record)?;
        self.take("refs", "refs", &|path| {
            path.to_str()
                .is_none_or(|name| is_left_out(name, record, tracking))
        })?;
        self.write_packed_refs(record, tracking)?;
        if let Some(shallow) = self.repository.read_common("shallow")? {
            self.write("shallow", &shallow)?;
        }
        self.write(
            "HEAD",
            &match self.repository.head()? {
                Head::Branch(name) => format!("ref: {name}\n"),
                Head::Commit(id) => format!("{id}\n"),
            },
        )
    }

    /// Takes over the objects of the workspace. Git writes new objects to another folder, so that
    /// they can be distinguished.
    fn take_objects(&self, record: &Record) -> Result<(), GitError> {
        let alternates = self
            .repository
            .read_common("objects/info/alternates")?
            .unwrap_or_default();
        let file = self.repository.common_path("objects/info/alternates");
        if alternates != record.alternates {
            let violation = "was changed since `after_create` finished: it points to other repositories";
            return Err(GitError::changed(&file, violation));
        }
        self.take("objects", "taken", &|path| !is_object(path))?;
        let mut list = format!("{}\n", self.folder.join("taken").display());
        for line in alternates
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let path = self.repository.common_path("objects").join(line);
            list.push_str(&format!("{}\n", path.display()));
        }
        self.write("objects/info/alternates", &list)?;
        let has_lfs = files::descend(&self.repository.common, Path::new("lfs/objects")).is_ok();
        if has_lfs {
            let objects = self.folder.join("lfs/objects");
            create_private_dir_all(&objects).map_err(GitError::io("make", &objects))?;
            self.take("lfs/objects", "lfs/objects", &|_| false)?;
            let hook = self.folder.join("hooks/pre-push");
            #[expect(clippy::disallowed_methods, reason = "Vik's own file")]
            let made = write_private(&hook, LFS_PRE_PUSH)
                .and_then(|()| std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o700)));
            made.map_err(GitError::io("write", &hook))?;
        }
        Ok(())
    }

    /// Takes over a folder of the workspace's repository into one of the view.
    fn take(&self, from: &str, to: &str, leave_out: &dyn Fn(&Path) -> bool) -> Result<(), GitError> {
        let name = self.repository.common_path(from);
        let source = files::descend(&self.repository.common, Path::new(from)).map_err(|error| {
            GitError::changed(
                &name,
                format!("cannot be opened as a folder without following a link ({error})"),
            )
        })?;
        let takeover = Takeover {
            name: &name,
            leave_out,
            of_refs: from == "refs",
        };
        takeover.run(&source, &self.open_own(to)?)
    }

    fn write_packed_refs(&self, record: &Record, tracking: Tracking) -> Result<(), GitError> {
        let packed = self.repository.read_common("packed-refs")?.unwrap_or_default();
        let mut text = String::new();
        for line in packed.lines() {
            let Some((id, name)) = line.split_once(' ') else {
                continue;
            };
            let is_taken = name
                .strip_prefix("refs/")
                .is_some_and(|name| !is_left_out(name, record, tracking));
            if is_id(id) && is_ref(name) && is_taken {
                text.push_str(&format!("{id} {name}\n"));
            }
        }
        if tracking == Tracking::OfRecord {
            for (name, value) in &record.tracking {
                match value.strip_prefix("ref: ") {
                    None => text.push_str(&format!("{value} {name}\n")),
                    Some(_) => {
                        let path = self.folder.join(name);
                        let folder = path.parent().unwrap_or(&self.folder);
                        create_private_dir_all(folder).map_err(GitError::io("make", folder))?;
                        self.write(name, &format!("{value}\n"))?;
                    }
                }
            }
        }
        self.write("packed-refs", &text)
    }
}
