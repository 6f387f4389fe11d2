//! Takes over the commits of an agent into the main repository.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use vik_base::failpoint;
use vik_proc::{Limits, Stdin, Supervisor};

use super::record::Record;
use super::refs::{branch_of, refs};
use super::{LinkedTree, is_plain, remove};
use crate::changes::small_file;
use crate::fs::{write_atomic, write_private};
use crate::git::is_id;
use crate::isolated_git::isolated_spec;

/// The time limit of one git call.
const GIT_TIMEOUT: Duration = Duration::from_mins(5);

/// The most branches and tags that an attempt may create.
const MAX_NEW_REFS: usize = 10_000;

/// The limit of the output of one git call.
const GIT_BYTES: usize = 128 * 1024 * 1024;

/// Why commits were not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// A file cannot be read or written.
    #[error("cannot copy the commits of the linked work tree")]
    Io(#[from] io::Error),
    /// The agent changed the places where git finds objects.
    #[error("the commits in {} were not copied: its objects contain links or other repositories", .0.display())]
    Foreign(PathBuf),
    #[error("cannot copy the commits of the linked work tree: {0}")]
    Git(String),
    /// The caller cancelled it.
    #[error("the commits of the linked work tree are not copied yet: Vik is stopping")]
    Stopped,
}

/// Redirects git in a work tree to its main repository again, and takes over the new commits: those
/// of the branch that was checked out, and of branches that the main repository does not have. Does
/// nothing if no agent worked in it. It may be interrupted at any point and repeated. Stops when
/// `stop` completes. Blocks between calls of git.
///
/// # Errors
/// When something was not taken over; it stays in the separate repository.
pub async fn take_over(
    supervisor: &Supervisor,
    workdir: &Path,
    file: &Path,
    stop: impl Future<Output = ()>,
) -> Result<(), TakeOverError> {
    let Some(mut record) = Record::read(file)? else {
        return Ok(());
    };
    let Some(common) = record.own.ancestors().nth(2).map(Path::to_owned) else {
        return Ok(());
    };
    let tree = LinkedTree {
        workdir: workdir.to_owned(),
        own: record.own.clone(),
        common,
    };
    if !tree.own.is_dir() {
        // The user removed the work tree.
        return Ok(std::fs::remove_file(file)?);
    }
    tree.restore_links(&mut record, file)?;
    failpoint::reach("work_tree_led_back");
    let git = Git {
        supervisor,
        tree: &tree,
        stop: std::pin::pin!(stop),
        is_stopped: false,
    };
    tree.take_branches(git, &mut record, file).await?;
    if let Some(head) = &record.agent_head {
        let is_taken = |name: &str| record.is_own(name) || record.moved.contains_key(name);
        if branch_of(head).is_none_or(is_taken) {
            tree.set_head(head)?;
        }
    }
    failpoint::reach("commits_taken_over");
    std::fs::remove_file(file)?;
    Ok(remove(&tree.own)?)
}

impl LinkedTree {
    /// Restores the files that direct git to the main repository. `HEAD` has its value from before
    /// the agent until the agent's commits are there.
    fn restore_links(&self, record: &mut Record, file: &Path) -> io::Result<()> {
        write_atomic(&self.own.join("commondir"), b"../..\n")?;
        let link = self.workdir.join(".git");
        write_atomic(
            &self.own.join("gitdir"),
            format!("{}\n", link.display()).as_bytes(),
        )?;
        let head = small_file(&self.own.join("HEAD")).unwrap_or_default();
        if head == record.head {
            return Ok(());
        }
        let is_head = |head: &str| is_id(head.trim()) || branch_of(head).is_some();
        if record.agent_head.is_none() && is_head(&head) {
            record.agent_head = Some(head);
            record.write(file)?;
        }
        self.set_head(&record.head)
    }

    async fn take_branches<F: Future<Output = ()>>(
        &self,
        mut git: Git<'_, F>,
        record: &mut Record,
        file: &Path,
    ) -> Result<(), TakeOverError> {
        let separate = self.separate_repository();
        let objects = separate.join("objects");
        if !separate.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
            return Ok(());
        }
        let alternates = small_file(&objects.join("info/alternates"));
        if !is_plain(&objects, 3)? || alternates.ok() != Some(self.alternates()) {
            return Err(TakeOverError::Foreign(separate));
        }
        let args = ["for-each-ref", "--format=%(objectname) %(refname)"];
        let listed = git.run(&args, None, false).await?;
        let listed = String::from_utf8_lossy(&listed);
        let all_known: BTreeMap<&str, &str> = listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(hash, name)| (name, hash))
            .collect();
        // Other refs would change what git shows of the main repository: replacements, notes, the
        // stash.
        let may_be_taken = |name: &str| {
            let short = name
                .strip_prefix("refs/heads/")
                .or_else(|| name.strip_prefix("refs/tags/"));
            // Git would resolve a branch `origin/main` before the remote-tracking branch.
            short.is_some_and(|short| !all_known.contains_key(format!("refs/remotes/{short}").as_str()))
        };
        let mut moves = Vec::new();
        for (name, new) in refs(&separate)? {
            let known = all_known.get(name.as_str()).copied();
            if known != Some(new.as_str())
                && may_be_taken(&name)
                && let Some(expected) = record.expected(&name, known)
            {
                moves.push((name, new, expected));
            }
        }
        if moves.len() > MAX_NEW_REFS {
            let reason = format!(
                "{} new branches and tags, at most {MAX_NEW_REFS} are allowed",
                moves.len()
            );
            return Err(TakeOverError::Git(reason));
        }
        let mut wanted: String = all_known.values().map(|hash| format!("^{hash}\n")).collect();
        let detached = record.agent_head.as_deref().map(str::trim);
        let tips = moves.iter().map(|(_, new, _)| new.as_str());
        let tips = tips.chain(detached.filter(|head| is_id(head)));
        tips.for_each(|new| wanted.push_str(&format!("{new}\n")));
        // In the separate repository, since git cannot move a pack to another file system. No agent
        // can guess the name.
        let base = separate.join(format!("take-over-{}", uuid::Uuid::now_v7().simple()));
        wanted.push_str(&self.unnamed(&mut git, &base.with_extension("unnamed")).await?);
        write_private(&base, wanted.as_bytes())?;
        git.take_objects(&base).await?;
        failpoint::reach("objects_taken_over");
        for (name, new, _) in &moves {
            record.moved.entry(name.clone()).or_default().insert(new.clone());
        }
        record.write(file)?;
        for (name, new, expected) in moves {
            let none = "0".repeat(new.len());
            let args = ["update-ref", &name, &new, expected.as_deref().unwrap_or(&none)];
            match git.run(&args, None, false).await {
                Ok(_) => {}
                Err(TakeOverError::Git(_)) => {
                    // Another process moved it meanwhile: both commits stay.
                    let aside = name.replacen("refs/heads/", "refs/", 1);
                    let aside = aside.replacen("refs/", "refs/vik/", 1);
                    tracing::warn!(
                        branch = name,
                        "another process moved the branch: the agent's commits are at {aside}"
                    );
                    if !record.is_own(&name)
                        && record.agent_head.as_deref().and_then(branch_of) == Some(&name)
                    {
                        // The name belongs to another process: the work tree stays at the agent's
                        // commit.
                        record.agent_head = Some(format!("{new}\n"));
                        record.write(file)?;
                    }
                    git.run(&["update-ref", &aside, &new], None, false).await?;
                }
                Err(error) => return Err(error),
            }
            failpoint::reach("branch_moved");
        }
        Ok(())
    }

    /// Returns the objects that no ref names, one per line: staged content, and commits that were
    /// amended. The options of git for this (`--indexed-objects`, `--reflog`) read the index and
    /// the log of every work tree: those of other work trees name objects that only their separate
    /// repositories have.
    async fn unnamed<F: Future<Output = ()>>(
        &self,
        git: &mut Git<'_, F>,
        list: &Path,
    ) -> Result<String, TakeOverError> {
        let staged = git.run(&["ls-files", "--stage"], None, true).await?;
        let staged = String::from_utf8_lossy(&staged);
        let staged = staged.lines().filter(|line| !line.starts_with("160000 "));
        let log = small_file(&self.own.join("logs/HEAD")).unwrap_or_default();
        let hashes = staged
            .chain(log.lines())
            .filter_map(|line| line.split(' ').nth(1));
        let hashes: BTreeSet<&str> = hashes.filter(|hash| is_id(hash)).collect();
        let hashes: String = hashes.iter().map(|hash| format!("{hash}\n")).collect();
        write_private(list, hashes.as_bytes())?;
        let args = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
        let found = git.run(&args, Some(list), true).await?;
        let found = String::from_utf8_lossy(&found);
        let found = found.lines().filter_map(|line| line.split_once(' '));
        let found = found.filter(|(_, kind)| matches!(*kind, "blob" | "commit"));
        Ok(found.map(|(hash, _)| format!("{hash}\n")).collect())
    }
}

/// Runs git in the main repository of a work tree, which no agent could write to.
struct Git<'a, F> {
    supervisor: &'a Supervisor,
    tree: &'a LinkedTree,
    stop: Pin<&'a mut F>,
    is_stopped: bool,
}

impl<F: Future<Output = ()>> Git<'_, F> {
    /// Takes over the objects of the commits in the file `wanted`. Git trusts the name of an object
    /// that it packs. Therefore each object is named by its content again: an object that the
    /// wanted commits then lack was forged.
    async fn take_objects(&mut self, wanted: &Path) -> Result<(), TakeOverError> {
        let base = wanted.with_extension("objects");
        let base = base.to_string_lossy();
        let args = ["pack-objects", "-q", "--revs", "--local", "--non-empty", &base];
        let hash = self.run(&args, Some(wanted), true).await?;
        let hash = String::from_utf8_lossy(&hash).trim().to_owned();
        if is_id(&hash) {
            let pack = PathBuf::from(format!("{base}-{hash}.pack"));
            let args = ["index-pack", "--stdin", "--strict"];
            self.run(&args, Some(&pack), false).await?;
        }
        let args = [
            "rev-list",
            "--objects",
            "--quiet",
            "--missing=allow-promisor",
            "--stdin",
        ];
        self.run(&args, Some(wanted), false).await.map(|_| ())
    }

    /// Runs git to its end. With `borrows`, it uses the objects and the index of the separate
    /// repository.
    async fn run(
        &mut self,
        args: &[&str],
        stdin: Option<&Path>,
        borrows: bool,
    ) -> Result<Vec<u8>, TakeOverError> {
        if self.is_stopped {
            return Err(TakeOverError::Stopped);
        }
        let tree = self.tree;
        let safe = [
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "pack.packSizeLimit=0",
        ];
        let separate = borrows.then(|| {
            let objects = tree.separate_repository().join("objects");
            [
                ("GIT_OBJECT_DIRECTORY", objects.into()),
                ("GIT_INDEX_FILE", tree.own.join("index").into()),
            ]
        });
        let env = separate.into_iter().flatten();
        let mut spec = isolated_spec(&tree.common, &tree.common, &[&safe, args].concat(), env);
        if let Some(file) = stdin {
            spec.stdin = Stdin::File(file.to_owned());
        }
        let limits = Limits {
            timeout: GIT_TIMEOUT,
            max_bytes: GIT_BYTES,
        };
        let (stop, is_stopped) = (&mut self.stop, &mut self.is_stopped);
        let cancel = async move {
            stop.as_mut().await;
            *is_stopped = true;
        };
        let run = self.supervisor.output(&spec, limits, cancel).await;
        let run = run.map_err(|error| TakeOverError::Git(vik_base::report::chain(&error)))?;
        if run.is_success() {
            return Ok(run.stdout);
        }
        if self.is_stopped {
            return Err(TakeOverError::Stopped);
        }
        let verb = args.first().copied().unwrap_or_default();
        let how = vik_base::report::describe_exit(&run.exit);
        Err(TakeOverError::Git(format!("`git {verb}` {how}")))
    }
}
