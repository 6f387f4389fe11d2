//! Checks whether the file system of a folder supports a write-ahead log.

use std::io;
use std::path::Path;

use super::LedgerError;

/// Returns the name of the network file system of a folder; `None` if the folder is local.
pub(super) type Probe = fn(&Path) -> io::Result<Option<String>>;

/// Refuses a folder on a network file system, because locks and syncs are unreliable there.
pub(super) fn refuse_network(folder: &Path, probe: Probe) -> Result<(), LedgerError> {
    match probe(folder).map_err(|source| LedgerError::of_io(folder, source))? {
        None => Ok(()),
        Some(kind) => Err(LedgerError::Network {
            path: folder.to_owned(),
            kind,
        }),
    }
}

/// Returns the kind of the network file system, as the operating system reports it.
#[cfg(target_os = "linux")]
pub(super) fn network(folder: &Path) -> io::Result<Option<String>> {
    use std::os::unix::fs::MetadataExt;

    let kind = nix::sys::statfs::statfs(folder)?.filesystem_type().0;
    // The type of the field differs between machines; the numbers are 32 bits wide.
    #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast)]
    let magic = kind as u32;
    if let Some((_, name)) = NETWORK.iter().find(|(known, _)| *known == magic) {
        return Ok(Some((*name).to_owned()));
    }
    if magic != FUSE {
        return Ok(None);
    }
    let device = std::fs::metadata(folder)?.dev();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(fuse_kind(
        &mounts,
        nix::sys::stat::major(device),
        nix::sys::stat::minor(device),
    )
    .filter(|kind| !LOCAL_FUSE.contains(&kind.as_str())))
}

/// Returns the kind of the network file system, as the operating system reports it.
#[cfg(target_os = "macos")]
pub(super) fn network(folder: &Path) -> io::Result<Option<String>> {
    let stat = nix::sys::statfs::statfs(folder)?;
    let local = stat.flags().contains(nix::mount::MntFlags::MNT_LOCAL);
    Ok((!local).then(|| stat.filesystem_type_name().to_owned()))
}

/// The magic numbers from `statfs(2)` and the kernel's `magic.h`.
#[cfg(target_os = "linux")]
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x564c, "ncp"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "fhgfs"),
];

#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// File systems in user space that keep their files on this machine. Others may store them
/// anywhere: `fuse.sshfs`, `fuse.rclone`, `fuse.glusterfs` and many more.
#[cfg(target_os = "linux")]
const LOCAL_FUSE: &[&str] = &[
    "fuseblk",
    "fuse.bindfs",
    "fuse.encfs",
    "fuse.ext2",
    "fuse.exfat",
    "fuse.fuse-overlayfs",
    "fuse.gocryptfs",
    "fuse.lxcfs",
    "fuse.mergerfs",
    "fuse.ntfs-3g",
    "fuse.zfs",
];

/// Returns the type of the file system with this device number: the first field after ` - ` in its
/// line of `mountinfo`.
#[cfg(target_os = "linux")]
fn fuse_kind(mounts: &str, major: u64, minor: u64) -> Option<String> {
    let device = format!("{major}:{minor}");
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        (mount.split(' ').nth(2) == Some(&device)).then(|| kind.split(' ').next().map(str::to_owned))?
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn fuse_kind_is_read_from_the_mounts() {
        let mounts = "23 28 0:21 / /proc rw,nosuid shared:1 - proc proc rw\n\
                      90 28 0:44 / /mnt/far rw,relatime shared:2 - fuse.sshfs me@far: rw\n\
                      91 28 0:45 / /mnt/disk rw - fuseblk /dev/sdb1 rw\n";
        assert_eq!(fuse_kind(mounts, 0, 44).as_deref(), Some("fuse.sshfs"));
        assert_eq!(fuse_kind(mounts, 0, 45).as_deref(), Some("fuseblk"));
        assert_eq!(fuse_kind(mounts, 0, 46), None);
    }

    #[test]
    fn local_folder_is_no_network_file_system() {
        assert_eq!(network(Path::new("/proc")).unwrap(), None);
    }
}
