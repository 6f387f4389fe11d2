//! The rules of Landlock.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat};

use crate::sandbox::readable::{Entry, PartlyHidden, all_but};
use crate::sandbox::{Backend, DEVICES, Reads, Sandbox};

/// The newest version whose rights this code uses; an older kernel enforces those that it supports.
const NEWEST: ABI = ABI::V7;

pub(super) fn rules(sandbox: &Sandbox) -> Result<Option<OwnedFd>, RulesetError> {
    let (writing, reading) = (AccessFs::from_write(NEWEST), AccessFs::from_read(NEWEST));
    let (handled, opened, readable) = match &sandbox.read {
        Reads::AllBut { hidden, .. } if hidden.is_empty() => (writing, Vec::new(), &Vec::new()),
        Reads::AllBut { hidden, shown } => (writing | reading, all_but(hidden), shown),
        Reads::Only(paths) => (writing | reading, Vec::new(), paths),
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?;
    if sandbox.calls.is_some() {
        ruleset = ruleset.scope(Scope::from_all(NEWEST))?;
    }
    let rules = ruleset
        .create()?
        .add_rules(opened.iter().flat_map(|part| entries(part, handled & reading)))?
        .add_rules(beneath(&sandbox.write, handled))?
        .add_rules(beneath(readable, handled & reading))?;
    // Within namespaces, mounts cover the hidden places, so that folders can be listed. A file that
    // later replaces a hidden one still cannot be read.
    let listing = handled & AccessFs::ReadDir;
    if sandbox.backend == Backend::Bubblewrap && !listing.is_empty() {
        return Ok(rules.add_rules(beneath(&[PathBuf::from("/")], listing))?.into());
    }
    Ok(rules.into())
}

type Rule = Result<PathBeneath<OwnedFd>, RulesetError>;

/// Returns rules for the paths that exist.
fn beneath(paths: &[PathBuf], access: BitFlags<AccessFs>) -> impl Iterator<Item = Rule> {
    paths.iter().filter_map(move |path| {
        let place = open_place(path).ok()?;
        let kind = fstat(place.as_fd()).ok()?.st_mode & SFlag::S_IFMT.bits();
        if kind == SFlag::S_IFLNK.bits() {
            return None;
        }
        Some(rule(place, kind == SFlag::S_IFDIR.bits(), access))
    })
}

/// Returns rules for the readable entries of a folder. They are opened from the folder, because
/// there are hundreds of them.
fn entries(part: &PartlyHidden, access: BitFlags<AccessFs>) -> impl Iterator<Item = Rule> {
    let folder = open_place(&part.folder).ok();
    let open = move |entry: &Entry| {
        let kind = if entry.is_folder {
            OFlag::O_DIRECTORY
        } else {
            OFlag::empty()
        };
        // An entry that has become a link since is not followed: the rule is for the link, and
        // gives access to nothing.
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | kind;
        let place = openat(folder.as_ref()?, entry.name.as_os_str(), flags, Mode::empty()).ok()?;
        Some(rule(place, entry.is_folder, access))
    };
    part.readable.iter().filter_map(open)
}

fn rule(place: OwnedFd, is_folder: bool, access: BitFlags<AccessFs>) -> Rule {
    let access = if is_folder {
        access
    } else {
        access & AccessFs::from_file(NEWEST)
    };
    Ok(PathBeneath::new(place, access))
}

/// Opens a path component by component without following links: a link on the way was created after
/// the path was resolved. Only devices may be links; no sandboxed process can replace them.
fn open_place(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    if DEVICES.iter().any(|device| path == Path::new(device)) {
        return open(path, flags, Mode::empty());
    }
    let mut place = open("/", flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let folder = if parts.peek().is_some() {
            OFlag::O_DIRECTORY
        } else {
            OFlag::empty()
        };
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                place = openat(
                    place.as_fd(),
                    name,
                    flags | folder | OFlag::O_NOFOLLOW,
                    Mode::empty(),
                )?;
            }
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::EINVAL),
        }
    }
    Ok(place)
}
