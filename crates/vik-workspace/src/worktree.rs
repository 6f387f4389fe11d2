//! A workspace that is a linked work tree. A process that can write to the main repository can
//! destroy it, so git is redirected to a separate repository while an agent runs. Afterwards Vik
//! takes over the agent's commits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};
use vik_base::failpoint;
use vik_proc::{Limits, ShimSpec, Stdin, Supervisor};

use super::changes::small_file;
use super::fs::{create_private_dir_all, list_folder, write_atomic, write_json_atomic, write_private};
use super::removal;

mod refs;

pub use self::refs::refs;
use self::refs::{branch_of, copy, copy_refs, is_hash, packed_refs};

/// The name of the separate repository, in the work tree's folder of the main one.
const SEPARATE: &str = "vik";

/// The time limit of one git call.
const GIT_TIMEOUT: Duration = Duration::from_mins(5);

/// The most branches and tags that an attempt may create.
const MAX_NEW_REFS: usize = 10_000;

/// The limit of the output of one git call.
const GIT_BYTES: usize = 128 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct LinkedTree {
    workdir: PathBuf,
    /// The folder of the work tree in the main repository.
    own: PathBuf,
    common: PathBuf,
}

/// The state of a work tree whose commits were not taken over yet; stored where no agent can write.
/// While it exists, the separate repository is complete.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    own: PathBuf,
    /// The branch that was checked out before the agent started, and its commit.
    branch: Option<(String, Option<String>)>,
    /// `HEAD` before the agent started.
    head: String,
    /// `HEAD` after the agent, if it changed.
    agent_head: Option<String>,
    /// The commits that Vik has moved refs of the main repository to, or was about to.
    moved: BTreeMap<String, BTreeSet<String>>,
}

impl Record {
    fn read(file: &Path) -> io::Result<Option<Self>> {
        match super::fs::read(file) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, file: &Path) -> io::Result<()> {
        write_json_atomic(file, self)
    }

    /// Returns whether this is the branch that was checked out.
    fn is_own(&self, name: &str) -> bool {
        self.branch.as_ref().is_some_and(|(own, _)| own == name)
    }

    /// Returns the value that a ref of the main repository must have for Vik to move it; `None` if
    /// it stays as it is.
    fn expected(&self, name: &str, known: Option<&str>) -> Option<Option<String>> {
        let is_moved = |known| self.moved.get(name).is_some_and(|moved| moved.contains(known));
        match (&self.branch, known) {
            (_, Some(known)) if is_moved(known) => Some(Some(known.to_owned())),
            (Some((own, old)), _) if own == name => Some(old.clone()),
            (_, None) => Some(None),
            // Another process created it before Vik could.
            _ if self.moved.contains_key(name) => Some(None),
            // Another branch of the user.
            _ => None,
        }
    }
}

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

impl LinkedTree {
    /// Returns the work tree in this folder, if its repository knows it. Blocks.
    pub fn of(workdir: &Path) -> Option<Self> {
        let own = vik_proc::repository_in(workdir).pop()?;
        let common = own.parent()?.parent()?.to_owned();
        Some(Self {
            workdir: workdir.to_owned(),
            own,
            common,
        })
    }

    /// Redirects git in the work tree to a separate repository, which borrows the objects of the
    /// main one and starts with its branches. Writes what was checked out to the file `record`.
    /// Blocks.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn separate(&self, record: &Path) -> io::Result<()> {
        if self.common.join("reftable").exists() {
            // Its refs are not in files that can be copied: the agent can only read the repository.
            return Ok(());
        }
        let separate = self.separate_repository();
        match Record::read(record)? {
            // An earlier attempt was interrupted: its commits are not taken over yet.
            Some(mut kept) if separate.symlink_metadata().is_ok() => {
                // Its agent may have modified the repository, which must not lead elsewhere.
                if !is_plain(&separate.join("objects"), 3)? || !separate.symlink_metadata()?.is_dir() {
                    return Err(io::Error::other(format!(
                        "{} contains links among its objects",
                        separate.display()
                    )));
                }
                if let Some(head) = kept.agent_head.clone() {
                    self.set_head(&head)?;
                    kept.agent_head = None;
                    kept.write(record)?;
                }
            }
            kept => {
                if kept.is_some() {
                    std::fs::remove_file(record)?;
                }
                remove(&self.own)?;
                self.copy_to(&separate)?;
                let head = small_file(&self.own.join("HEAD"))?;
                let branch = branch_of(&head).map(|name| (name.to_owned(), self.resolve(name)));
                let kept = Record {
                    own: self.own.clone(),
                    branch,
                    head,
                    agent_head: None,
                    moved: BTreeMap::new(),
                };
                kept.write(record)?;
            }
        }
        write_private(
            &separate.join("objects/info/alternates"),
            self.alternates().as_bytes(),
        )?;
        write_atomic(&self.own.join("commondir"), format!("{SEPARATE}\n").as_bytes())?;
        failpoint::reach("repository_separated");
        Ok(())
    }

    fn copy_to(&self, separate: &Path) -> io::Result<()> {
        for folder in [
            "objects/info",
            "objects/pack",
            "refs/heads",
            "refs/tags",
            "info",
            "logs",
        ] {
            create_private_dir_all(&separate.join(folder))?;
        }
        for file in ["config", "HEAD", "packed-refs", "shallow", "info/exclude"] {
            let from = self.common.join(file);
            if from.is_file() {
                copy(&from, &separate.join(file))?;
            }
        }
        failpoint::reach("repository_begun");
        copy_refs(&self.common.join("refs"), &separate.join("refs"))?;
        symlink(self.common.join("hooks"), separate.join("hooks"))
    }

    fn separate_repository(&self) -> PathBuf {
        self.own.join(SEPARATE)
    }

    fn set_head(&self, head: &str) -> io::Result<()> {
        write_atomic(&self.own.join("HEAD"), head.as_bytes())
    }

    /// Returns the commit of a ref, if it is known without git.
    fn resolve(&self, name: &str) -> Option<String> {
        let loose = small_file(&self.common.join(name)).ok();
        let packed = || packed_refs(&self.common.join("packed-refs")).remove(name);
        loose
            .or_else(packed)
            .map(|hash| hash.trim().to_owned())
            .filter(|hash| is_hash(hash))
    }

    fn alternates(&self) -> String {
        format!("{}\n", self.common.join("objects").display())
    }
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
        let is_head = |head: &str| is_hash(head.trim()) || branch_of(head).is_some();
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
        let tips = tips.chain(detached.filter(|head| is_hash(head)));
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
}

impl LinkedTree {
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
        let hashes: BTreeSet<&str> = hashes.filter(|hash| is_hash(hash)).collect();
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
        if is_hash(&hash) {
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
        let mut spec = ShimSpec::command("git", &tree.common);
        let safe = [
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "pack.packSizeLimit=0",
        ];
        spec.args = safe.iter().chain(args).map(OsString::from).collect();
        let mut env: BTreeMap<&str, OsString> = [
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("LC_ALL", "C".into()),
            ("GIT_DIR", tree.common.clone().into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ("GIT_NO_LAZY_FETCH", "1".into()),
            ("GIT_NO_REPLACE_OBJECTS", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
        ]
        .into();
        if borrows {
            let objects = tree.separate_repository().join("objects");
            env.insert("GIT_OBJECT_DIRECTORY", objects.into());
            env.insert("GIT_INDEX_FILE", tree.own.join("index").into());
        }
        spec.env = env
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
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

/// Removes the separate repository, whatever an agent made of it.
fn remove(own: &Path) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = nix::fcntl::open(own, flags, Mode::empty())?;
    removal::remove_at(&folder, OsStr::new(SEPARATE)).map(|_| ())
}

/// Returns whether there are only files and folders, no deeper than git creates them.
fn is_plain(folder: &Path, depth: u32) -> io::Result<bool> {
    if depth == 0 || !folder.symlink_metadata()?.is_dir() {
        return Ok(false);
    }
    for entry in list_folder(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let fits = kind.is_file() || (kind.is_dir() && is_plain(&entry.path(), depth - 1)?);
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}
