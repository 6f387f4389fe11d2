//! The rules of Landlock.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::opened::OpenedPlaces;
use crate::sandbox::readable::{Direct, Entry, PartlyHidden, all_but};
use crate::sandbox::{Backend, DEVICES, Reads, Sandbox, SandboxError};
use crate::sys;

/// The newest version whose rights this code uses; an older kernel enforces those that it supports.
const NEWEST: ABI = ABI::V7;

/// An open file or folder. The descriptor gives no access to its content.
#[derive(Debug)]
pub(super) struct Place {
    handle: OwnedFd,
    is_folder: bool,
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Creates the rules of a sandbox. Readable places that are open already are not searched for.
pub(super) fn rules(
    sandbox: &Sandbox,
    opened: Option<&OpenedPlaces>,
) -> Result<Option<OwnedFd>, SandboxError> {
    let (writing, reading) = (AccessFs::from_write(NEWEST), AccessFs::from_read(NEWEST));
    let (handled, hidden, shown) = match &sandbox.read {
        Reads::AllBut { hidden, .. } if hidden.is_empty() => (writing, &[][..], &[][..]),
        Reads::AllBut { hidden, shown } => (writing | reading, &hidden[..], &shown[..]),
        Reads::Only(paths) => (writing | reading, &[][..], &paths[..]),
    };
    // The rules for writing include reading.
    let shown = shown.iter().filter(|path| !sandbox.write.contains(path));
    let create = || -> Result<_, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(handled)?;
        if sandbox.calls.is_some() {
            ruleset = ruleset.scope(Scope::from_all(NEWEST))?;
        }
        let rules = ruleset
            .create()?
            .add_rules(beneath(&sandbox.write, handled))?
            .add_rules(beneath(shown.clone(), handled & reading))?;
        // Within namespaces, mounts cover the hidden places, so that folders can be listed. A file
        // that later replaces a hidden one still cannot be read.
        let listing = handled & AccessFs::ReadDir;
        if sandbox.backend == Backend::Bubblewrap && !listing.is_empty() {
            return Ok(rules.add_rules(beneath(&[PathBuf::from("/")], listing))?.into());
        }
        Ok(rules.into())
    };
    let rules: Option<OwnedFd> = create().map_err(|error| SandboxError::Rules(error.to_string()))?;
    let add = |place: &Place| {
        let access = if place.is_folder {
            reading
        } else {
            reading & AccessFs::from_file(NEWEST)
        };
        let added = rules
            .as_ref()
            .map(|rules| sys::landlock_allow(rules, place.as_fd(), access.bits()));
        added
            .unwrap_or(Ok(()))
            .map_err(|error| SandboxError::Rules(error.to_string()))
    };
    match opened.and_then(|opened| opened.of(sandbox)) {
        Some(places) => places.iter().try_for_each(|place| add(place))?,
        None if hidden.is_empty() => {}
        None => {
            let parts = all_but(hidden, &mut Direct);
            parts
                .iter()
                .flat_map(open_entries)
                .try_for_each(|place| add(&place))?;
        }
    }
    Ok(rules)
}

/// Returns rules for the paths that exist.
fn beneath<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    access: BitFlags<AccessFs>,
) -> impl Iterator<Item = Result<PathBeneath<OwnedFd>, RulesetError>> {
    paths.into_iter().filter_map(move |path| {
        let place = open_place(path).ok()?;
        let kind = fstat(place.as_fd()).ok()?.st_mode & SFlag::S_IFMT.bits();
        let access = match SFlag::from_bits_truncate(kind) {
            SFlag::S_IFLNK => return None,
            SFlag::S_IFDIR => access,
            _ => access & AccessFs::from_file(NEWEST),
        };
        Some(Ok(PathBeneath::new(place, access)))
    })
}

/// Opens the readable entries of a folder. They are opened from the folder, because there are
/// hundreds of them.
pub(super) fn open_entries(part: &PartlyHidden) -> impl Iterator<Item = Place> {
    let folder = open_place(&part.folder).ok();
    let open = move |entry: &Entry| open_entry(folder.as_ref()?, entry).ok();
    part.readable.iter().filter_map(open)
}

/// Opens an entry of a folder. An entry that has become a link is not followed: the rule is then for
/// the link, and gives access to nothing.
pub(super) fn open_entry(folder: &OwnedFd, entry: &Entry) -> Result<Place, Errno> {
    let kind = if entry.is_folder {
        OFlag::O_DIRECTORY
    } else {
        OFlag::empty()
    };
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | kind;
    Ok(Place {
        handle: openat(folder, entry.name.as_os_str(), flags, Mode::empty())?,
        is_folder: entry.is_folder,
    })
}

/// Opens a path without following links, component by component where the kernel does not offer
/// that: a link on the way was created after the path was resolved. Only devices may be links; no
/// sandboxed process can replace them.
pub(super) fn open_place(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    if DEVICES.iter().any(|device| path == Path::new(device)) {
        return open(path, flags, Mode::empty());
    }
    let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    if let Some(place) = is_plain.then(|| sys::open_without_links(path).ok()).flatten() {
        return Ok(place);
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
