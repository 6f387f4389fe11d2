//! Objects whose content matches their ids.
//!
//! Git compares the content of an object with its id when it receives the object, and not when it
//! reads it from its own files, which an agent can write. So the objects that a push or a reset
//! relies on are packed from the workspace's files and received in a folder of the view: there git
//! itself has computed each id from the content.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use super::files::is_id;
use super::run::{check_status, could_not_start, entries, output};
use super::view::{CHECKED_FOLDER, View};
use super::{GitError, files};

/// The limit on the commits before a named one that `~`, `^` and similar suffixes can reach.
const MAX_HISTORY: &str = "--max-count=10000";

impl View {
    /// Returns whether a commit is another one or a part of its history, based on commits whose
    /// content was compared with their ids. History that the workspace lacks proves nothing.
    ///
    /// # Errors
    /// Returns an error if the content of a commit in between does not match its id.
    pub fn is_part(&self, commit: &str, of: &str) -> Result<bool, GitError> {
        if commit == of {
            return Ok(true);
        }
        let mut list = self.git(["rev-list", "--boundary", of, &format!("^{commit}")]);
        let mut commits = BTreeSet::new();
        let mut boundary = BTreeSet::new();
        let listed = entries(
            without_fetch(&mut list).stderr(Stdio::null()),
            b'\n',
            |line| match line.strip_prefix('-') {
                Some(id) => drop(boundary.insert(id.to_owned())),
                None => drop(commits.insert(line.to_owned())),
            },
        );
        // The command fails if the workspace lacks the commit.
        if listed.is_err() || !boundary.contains(commit) {
            return Ok(false);
        }
        // The history ends at these commits. A commit that is wrongly marked as shallow only
        // reduces what is proven.
        let mut shallow = files::read_text(&self.open_own("")?, "shallow")
            .map_err(GitError::io("read", &self.folder.join("shallow")))?
            .unwrap_or_default();
        for id in &boundary {
            shallow.push_str(&format!("{id}\n"));
        }
        self.write("shallow-checked", &shallow)?;
        commits.append(&mut boundary);
        self.receive(&commits)?;
        let mut ask = self.checked(self.git(["merge-base", "--is-ancestor", commit, of]));
        ask.env("GIT_SHALLOW_FILE", self.folder.join("shallow-checked"));
        Ok(output(&mut ask).is_ok())
    }

    /// Returns the commit that a name refers to; `None` if there is none. The ref is the view's,
    /// and the suffix of the name (`~2`, the commit of a tag) is resolved with received objects
    /// only.
    ///
    /// # Errors
    /// Returns an error if the content of an object does not match its id.
    pub fn checked_commit(&self, name: &str) -> Result<Option<String>, GitError> {
        let suffix = name.find(['~', '^']).unwrap_or(name.len());
        let (name, suffix) = name.split_at(suffix);
        let Some(id) = self.resolve(self.git(["rev-parse"]), name)? else {
            return Ok(None);
        };
        let mut ids = BTreeSet::from([id.clone()]);
        self.receive(&ids)?;
        let limit = if suffix.is_empty() {
            "--no-walk"
        } else {
            MAX_HISTORY
        };
        let mut list = self.git(["rev-list", limit, &id]);
        let listed = entries(list.stderr(Stdio::null()), b'\n', |line| {
            ids.insert(line.to_owned());
        });
        if listed.is_err() {
            return Ok(None);
        }
        self.receive(&ids)?;
        let name = format!("{id}{suffix}^{{commit}}");
        self.resolve(self.checked(self.git(["rev-parse"])), &name)
    }

    pub(super) fn resolve(&self, mut rev_parse: Command, name: &str) -> Result<Option<String>, GitError> {
        rev_parse.args(["--verify", "--quiet", "--end-of-options", name]);
        let found = rev_parse
            .output()
            .map_err(|error| could_not_start("rev-parse", &error))?;
        let id = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        Ok(is_id(&id).then_some(id))
    }

    /// Creates the index for a reset to a commit that is [checked](Self::checked_commit), and
    /// receives the objects of the reset: its trees, and the files to be written. From then on the
    /// view has no other objects; those that a partial clone lacks are fetched.
    ///
    /// # Errors
    /// Returns an error if the content of an object does not match its id, or if an object is
    /// missing.
    pub fn prepare_reset(&self, commit: &str) -> Result<(), GitError> {
        let mut tree = self.checked(self.git([
            "rev-list",
            "--no-walk",
            "--no-commit-header",
            "--format=%T",
            commit,
        ]));
        let tree = String::from_utf8_lossy(&output(&mut tree)?.stdout)
            .trim()
            .to_owned();
        let mut trees = BTreeSet::from([tree.clone()]);
        self.receive(&trees)?;
        entries(&mut self.git(["ls-tree", "-r", "-d", "-z", &tree]), 0, |entry| {
            trees.extend(
                tree_entry(entry)
                    .filter(|(kind, ..)| *kind == "tree")
                    .map(|(_, id, _)| id.to_owned()),
            );
        })?;
        self.receive(&trees)?;

        // Git reads these from the commit for each file that it compares or writes.
        let mut attributes = BTreeSet::new();
        entries(
            &mut self.checked(self.git(["ls-tree", "-r", "-z", commit])),
            0,
            |entry| {
                let is_attributes = |path: &str| path.rsplit('/').next() == Some(".gitattributes");
                let entry =
                    tree_entry(entry).filter(|(kind, _, path)| *kind == "blob" && is_attributes(path));
                attributes.extend(entry.map(|(_, id, _)| id.to_owned()));
            },
        )?;
        self.receive(&attributes)?;

        self.make_entries()?;
        let mut refresh = self.checked(self.refresh());
        // Otherwise the attributes of the work tree, which the agent controls, would determine
        // which files are unchanged.
        let _ = refresh.env("GIT_ATTR_SOURCE", commit).status();
        let mut changed = BTreeSet::new();
        let compare = [
            "diff-index",
            "--raw",
            "--no-renames",
            "--ignore-submodules=all",
            "--abbrev=64",
            "-z",
            commit,
        ];
        let mut compare = self.checked(self.git_in_work_tree(compare));
        entries(compare.env("GIT_ATTR_SOURCE", commit), 0, |entry| {
            // `:MODE MODE ID ID STATUS`; the path is a separate entry.
            let mut fields = entry.strip_prefix(':').unwrap_or_default().split(' ');
            let (mode, id) = (fields.next(), fields.nth(1));
            let is_file = mode.is_some_and(|mode| !matches!(mode, "000000" | "160000"));
            changed.extend(id.filter(|id| is_file && is_id(id)).map(str::to_owned));
        })?;
        self.receive(&changed)?;
        self.write(
            "objects/info/alternates",
            &format!("{}\n", self.folder.join(CHECKED_FOLDER).display()),
        )
    }

    /// Receives objects of the workspace.
    ///
    /// # Errors
    /// Returns an error if the content of an object does not match its id, or if an object is
    /// missing in a clone that is not partial.
    fn receive(&self, ids: &BTreeSet<String>) -> Result<(), GitError> {
        let wanted = self.missing(&mut self.checked(self.git(["cat-file"])), ids)?;
        let absent = self.missing(without_fetch(&mut self.git(["cat-file"])), &wanted)?;
        let present = &wanted - &absent;
        if !present.is_empty() {
            self.copy(&present)?;
        }
        let forged = self.missing(&mut self.checked(self.git(["cat-file"])), &present)?;
        if let Some(object) = forged.into_iter().next() {
            return Err(GitError::Object {
                object,
                problem: "does not match its id",
            });
        }
        match absent.into_iter().next() {
            Some(object) if !self.is_partial => Err(GitError::Object {
                object,
                problem: "is missing",
            }),
            _ => Ok(()),
        }
    }

    fn copy(&self, ids: &BTreeSet<String>) -> Result<(), GitError> {
        let mut pack = self.git(["pack-objects", "--stdout", "-q", "--window=0", "--compression=1"]);
        let mut pack = without_fetch(&mut pack)
            .stdin(self.list(ids)?)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| could_not_start("pack-objects", &error))?;
        let mut index = self.checked(self.git(["index-pack", "--stdin"]));
        let index = index
            .stdin(pack.stdout.take().map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::null())
            .status();
        let packed = pack.wait();
        for (verb, status) in [("pack-objects", packed), ("index-pack", index)] {
            check_status(verb, status)?;
        }
        Ok(())
    }

    /// Returns the objects that git does not find.
    fn missing(&self, cat_file: &mut Command, ids: &BTreeSet<String>) -> Result<BTreeSet<String>, GitError> {
        let mut missing = BTreeSet::new();
        if ids.is_empty() {
            return Ok(missing);
        }
        cat_file
            .arg("--batch-check=%(objecttype)")
            .stdin(self.list(ids)?)
            .stderr(Stdio::null());
        entries(cat_file, b'\n', |line| {
            missing.extend(line.strip_suffix(" missing").map(str::to_owned));
        })?;
        Ok(missing)
    }

    /// Returns a list of objects as the input of a command.
    fn list(&self, ids: &BTreeSet<String>) -> Result<Stdio, GitError> {
        let mut text = String::new();
        for id in ids {
            text.push_str(id);
            text.push('\n');
        }
        self.write("list", &text)?;
        let path = self.folder.join("list");
        crate::fs::open(&path)
            .map(Stdio::from)
            .map_err(GitError::io("read", &path))
    }

    /// Restricts a command to received objects.
    fn checked(&self, mut command: Command) -> Command {
        without_fetch(&mut command).env("GIT_OBJECT_DIRECTORY", self.folder.join(CHECKED_FOLDER));
        command
    }
}

/// Makes git treat objects that a partial clone lacks as missing.
fn without_fetch(command: &mut Command) -> &mut Command {
    command.env("GIT_NO_LAZY_FETCH", "1")
}

/// Returns the kind, the id and the path of an entry that `git ls-tree` prints.
fn tree_entry(entry: &str) -> Option<(&str, &str, &str)> {
    let (facts, path) = entry.split_once('\t')?;
    let mut facts = facts.split(' ').skip(1);
    Some((facts.next()?, facts.next()?, path))
}
