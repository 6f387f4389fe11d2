//! A workspace that is a linked work tree: what its agent commits goes into a repository of the attempt's own first, since who
//! can write the main repository can destroy it. What is there afterwards is taken over by Vik.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};
use vik_proc::{Limits, ShimSpec, Stdin, Supervisor, untrusted};

use super::changes::small_file;
use super::fs::{create_private_dir_all, list_folder, write_atomic, write_json_atomic, write_private};
use super::removal;

/// The attempt's own repository, in the work tree's part of the main one.
const SEPARATE: &str = "vik";

/// How long git may take to take commits over.
const GIT_TIMEOUT: Duration = Duration::from_mins(5);

/// The most that is read of a file of packed refs.
const MAX_PACKED_REFS: u64 = 64 * 1024 * 1024;

/// The most branches and tags that an attempt may make.
const MAX_NEW_REFS: usize = 10_000;

/// The most that git may print.
const GIT_BYTES: usize = 16 * 1024 * 1024;

/// A linked work tree.
#[derive(Clone, Debug)]
pub struct LinkedTree {
    workdir: PathBuf,
    /// Its part of the main repository.
    own: PathBuf,
    common: PathBuf,
}

/// What the work tree had checked out before its agent started; kept where no agent can write.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Before {
    own: PathBuf,
    /// The branch, and the commit that it named.
    branch: Option<(String, Option<String>)>,
}

/// Why commits were not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// A file cannot be read or written.
    #[error("cannot take over the commits of the linked work tree")]
    Io(#[from] io::Error),
    /// The agent changed where git finds objects.
    #[error("the commits in {} are not taken over: it has links or other repositories among its objects", .0.display())]
    Foreign(PathBuf),
    /// git failed.
    #[error("cannot take over the commits of the linked work tree: {0}")]
    Git(String),
}

impl LinkedTree {
    /// The work tree in this folder, where it is one that its repository knows.
    pub fn of(workdir: &Path) -> Option<Self> {
        let own = vik_proc::repository_in(workdir).pop()?;
        let common = own.parent()?.parent()?.to_owned();
        Some(Self {
            workdir: workdir.to_owned(),
            own,
            common,
        })
    }

    /// Leads git in the work tree to a repository of its own, which borrows the objects of the main one and begins with its
    /// branches. `record` says what was checked out. Blocks.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn separate(&self, record: &Path) -> io::Result<()> {
        if self.common.join("reftable").exists() {
            // Its refs are no files that could be copied: the agent only reads the repository.
            return Ok(());
        }
        let separate = self.own.join(SEPARATE);
        if !record.exists() {
            remove(&self.own)?;
            let head = small_file(&self.own.join("HEAD"))?;
            let branch = head.strip_prefix("ref:").map(str::trim);
            let branch = branch.map(|name| (name.to_owned(), self.resolve(name)));
            let own = self.own.clone();
            write_json_atomic(record, &Before { own, branch })?;
        }
        if separate.symlink_metadata().is_ok() {
            // Left by an attempt that was cut off: what its agent made of it must not lead elsewhere.
            if !is_plain(&separate.join("objects"), 3)? || !separate.symlink_metadata()?.is_dir() {
                return Err(io::Error::other(format!(
                    "{} has links among its objects",
                    separate.display()
                )));
            }
        } else {
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
            copy_refs(&self.common.join("refs"), &separate.join("refs"))?;
            symlink(self.common.join("hooks"), separate.join("hooks"))?;
        }
        write_private(
            &separate.join("objects/info/alternates"),
            self.alternates().as_bytes(),
        )?;
        write_atomic(&self.own.join("commondir"), format!("{SEPARATE}\n").as_bytes())
    }

    /// The commit of a ref, where it is known without asking git.
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

/// Leads git in a work tree back to its main repository, and takes over what was committed: the branch that was checked out,
/// and branches that the main repository does not have. Nothing where no agent worked in it.
///
/// # Errors
/// When something was not taken over; it stays where it is.
pub async fn take_over(
    supervisor: &Supervisor,
    workdir: &Path,
    record: &Path,
    scratch: &Path,
) -> Result<(), TakeOverError> {
    let before: Before = match super::fs::read(record) {
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let Some(common) = before.own.ancestors().nth(2).map(Path::to_owned) else {
        return Ok(());
    };
    let tree = LinkedTree {
        workdir: workdir.to_owned(),
        own: before.own,
        common,
    };
    if !tree.own.is_dir() {
        // The user removed the work tree.
        return Ok(std::fs::remove_file(record)?);
    }
    write_atomic(&tree.own.join("commondir"), b"../..\n")?;
    let link = tree.workdir.join(".git");
    write_atomic(
        &tree.own.join("gitdir"),
        format!("{}\n", link.display()).as_bytes(),
    )?;
    let result = tree.take_branches(supervisor, before.branch, scratch).await;
    if result.is_ok() {
        remove(&tree.own)?;
        std::fs::remove_file(record)?;
    }
    result
}

impl LinkedTree {
    async fn take_branches(
        &self,
        supervisor: &Supervisor,
        checked_out: Option<(String, Option<String>)>,
        scratch: &Path,
    ) -> Result<(), TakeOverError> {
        let separate = self.own.join(SEPARATE);
        let objects = separate.join("objects");
        if !separate.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
            return Ok(());
        }
        let alternates = small_file(&objects.join("info/alternates"));
        if !is_plain(&objects, 3)? || alternates.ok() != Some(self.alternates()) {
            return Err(TakeOverError::Foreign(separate));
        }
        let args = ["for-each-ref", "--format=%(objectname) %(refname)"];
        let listed = self
            .git(supervisor, &args, None, false)
            .await
            .map_err(TakeOverError::Git)?;
        let listed = String::from_utf8_lossy(&listed);
        let all_known: BTreeMap<&str, &str> = listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(hash, name)| (name, hash))
            .collect();
        let mut moves = Vec::new();
        // Other refs would change what git shows of the main repository: replacements, notes, the stash.
        let is_taken_over = |name: &str| {
            let short = name
                .strip_prefix("refs/heads/")
                .or_else(|| name.strip_prefix("refs/tags/"));
            // One called `origin/main` would be found in place of the remote-tracking branch.
            short.is_some_and(|short| !all_known.contains_key(format!("refs/remotes/{short}").as_str()))
        };
        for (name, new) in refs(&separate)? {
            let known = all_known.get(name.as_str()).copied();
            match &checked_out {
                _ if known == Some(new.as_str()) || !is_taken_over(&name) => {}
                Some((own, old)) if *own == name => moves.push((name, new, old.clone())),
                _ if known.is_none() => moves.push((name, new, None)),
                // A branch of the user's, which this work tree had not checked out, stays as it is.
                _ => {}
            }
        }
        if let Some((own, _)) = &checked_out {
            let head = small_file(&self.own.join("HEAD")).unwrap_or_default();
            let head = head.strip_prefix("ref:").map(str::trim);
            let is_taken = |name: &str| name == own || moves.iter().any(|(moved, ..)| moved == name);
            if head.is_some_and(|name| !is_taken(name)) {
                write_atomic(&self.own.join("HEAD"), format!("ref: {own}\n").as_bytes())?;
            }
        }
        if moves.len() > MAX_NEW_REFS {
            let reason = format!(
                "it has {} new branches and tags, at most {MAX_NEW_REFS}",
                moves.len()
            );
            return Err(TakeOverError::Git(reason));
        }
        let mut wanted: String = all_known.values().map(|hash| format!("^{hash}\n")).collect();
        let head = small_file(&self.own.join("HEAD")).unwrap_or_default();
        let detached = Some(head.trim()).filter(|hash| is_hash(hash));
        let tips = moves.iter().map(|(_, new, _)| new.as_str()).chain(detached);
        tips.for_each(|new| wanted.push_str(&format!("{new}\n")));
        let list = scratch.join(format!("take-over-{}", uuid::Uuid::now_v7().simple()));
        write_private(&list, wanted.as_bytes())?;
        let base = list.with_extension("objects");
        let pack = base.to_string_lossy();
        // What is staged and in no commit yet goes with it, and what was amended.
        let args = [
            "pack-objects",
            "-q",
            "--revs",
            "--reflog",
            "--indexed-objects",
            "--local",
            "--non-empty",
            &pack,
        ];
        let taken = match self.git(supervisor, &args, Some(&list), true).await {
            Ok(hash) => self.take_objects(supervisor, &base, &hash, &list).await,
            Err(error) => Err(error),
        };
        let _ = std::fs::remove_file(&list);
        taken.map_err(TakeOverError::Git)?;
        for (name, new, old) in moves {
            let none = "0".repeat(new.len());
            let args = ["update-ref", &name, &new, old.as_deref().unwrap_or(&none)];
            if self.git(supervisor, &args, None, false).await.is_err() {
                // Somebody else moved it meanwhile: both stay.
                let aside = name.replacen("refs/heads/", "refs/", 1);
                let aside = aside.replacen("refs/", "refs/vik/", 1);
                tracing::warn!(
                    branch = name,
                    "the branch was moved by somebody else: the agent's commits are at {aside}"
                );
                let args = ["update-ref", &aside, &new];
                self.git(supervisor, &args, None, false)
                    .await
                    .map_err(TakeOverError::Git)?;
            }
        }
        Ok(())
    }

    /// Takes packed objects into the main repository. git believes the name of an object that it packs, so each is named anew by
    /// its content, and what the wanted commits then lack was forged.
    async fn take_objects(
        &self,
        supervisor: &Supervisor,
        base: &Path,
        hash: &[u8],
        wanted: &Path,
    ) -> Result<(), String> {
        let hash = String::from_utf8_lossy(hash).trim().to_owned();
        if is_hash(&hash) {
            let file = |extension: &str| PathBuf::from(format!("{}-{hash}.{extension}", base.display()));
            let args = ["index-pack", "--stdin", "--strict"];
            let indexed = self.git(supervisor, &args, Some(&file("pack")), false).await;
            for extension in ["pack", "idx", "rev"] {
                let _ = std::fs::remove_file(file(extension));
            }
            indexed?;
        }
        let args = [
            "rev-list",
            "--objects",
            "--quiet",
            "--missing=allow-promisor",
            "--stdin",
        ];
        self.git(supervisor, &args, Some(wanted), false).await.map(|_| ())
    }

    /// Runs git in the main repository, which no agent could write.
    async fn git(
        &self,
        supervisor: &Supervisor,
        args: &[&str],
        stdin: Option<&Path>,
        borrows: bool,
    ) -> Result<Vec<u8>, String> {
        let mut spec = ShimSpec::command("git", &self.common);
        let safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
        spec.args = safe.iter().chain(args).map(OsString::from).collect();
        let mut env: BTreeMap<&str, OsString> = [
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("LC_ALL", "C".into()),
            ("GIT_DIR", self.common.clone().into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ("GIT_NO_LAZY_FETCH", "1".into()),
            ("GIT_NO_REPLACE_OBJECTS", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
        ]
        .into();
        if borrows {
            let objects = self.own.join(SEPARATE).join("objects");
            env.insert("GIT_OBJECT_DIRECTORY", objects.into());
            env.insert("GIT_INDEX_FILE", self.own.join("index").into());
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
        let run = supervisor.output(&spec, limits, std::future::pending()).await;
        let run = run.map_err(|error| crate::report::chain(&error))?;
        if run.is_success() {
            return Ok(run.stdout);
        }
        let verb = args.first().copied().unwrap_or_default();
        Err(format!("`git {verb}` {}", crate::hooks::how_ended(&run.exit)))
    }
}

/// Removes the separate repository, whatever an agent made of it.
fn remove(own: &Path) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = nix::fcntl::open(own, flags, Mode::empty())?;
    removal::remove_at(&folder, OsStr::new(SEPARATE)).map(|_| ())
}

/// Whether there are only files and folders, and none deeper than git makes them.
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

/// The refs of a repository that an agent may have written.
pub(super) fn refs(repository: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut refs = packed_refs(&repository.join("packed-refs"));
    loose_refs(repository, Path::new("refs"), &mut refs)?;
    Ok(refs)
}

/// The refs in a file of packed ones, which an agent may have written.
fn packed_refs(file: &Path) -> BTreeMap<String, String> {
    let text = untrusted::read(file, MAX_PACKED_REFS).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter(|(hash, name)| is_hash(hash) && name.starts_with("refs/"))
        .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
        .collect()
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The refs below `path` of a repository that have files of their own.
fn loose_refs(repository: &Path, path: &Path, refs: &mut BTreeMap<String, String>) -> io::Result<()> {
    let folder = repository.join(path);
    if !folder.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
        return Ok(());
    }
    for entry in list_folder(&folder)? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            loose_refs(repository, &path, refs)?;
        } else if let (Some(name), Ok(hash)) = (path.to_str(), small_file(&entry.path()))
            && is_hash(hash.trim())
        {
            refs.insert(name.to_owned(), hash.trim().to_owned());
        }
    }
    Ok(())
}

/// Copies a file of the user's repository.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    write_private(to, &untrusted::read(from, MAX_PACKED_REFS)?)
}

/// Copies the refs of the user's repository.
fn copy_refs(from: &Path, to: &Path) -> io::Result<()> {
    create_private_dir_all(to)?;
    for entry in list_folder(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_refs(&entry.path(), &to)?;
        } else if kind.is_file() {
            copy(&entry.path(), &to)?;
        }
    }
    Ok(())
}
