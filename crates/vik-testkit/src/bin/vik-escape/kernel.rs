//! Namespaces, mounts, devices.

use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Plan, report, text};

/// The owner of a pipe gets a signal on input, of the kind that was set on the pipe.
const BY_A_PIPE: &str = r#"perl -MFcntl -e '
    pipe(my $read, my $write);
    fcntl($read, F_SETOWN, $ENV{VICTIM} + 0) or die "F_SETOWN: $!\n";
    fcntl($read, 10, 9) or die "F_SETSIG: $!\n";
    fcntl($read, F_SETFL, O_ASYNC | O_NONBLOCK) or die "O_ASYNC: $!\n";
    syswrite($write, "x");
    open(my $stat, "<", "/proc/$ENV{VICTIM}/stat") or exit 0;
    die "it is alive\n" unless <$stat> =~ /\) [ZX] /;'"#;

/// System V shared memory stays after all its processes have ended. It is removed again.
const MEMORY_THAT_STAYS: &str =
    r#"perl -e 'defined(my $id = shmget(0, 1 << 20, 01600)) or die "$!\n"; shmctl($id, 0, 0)'"#;
const QUEUE_THAT_STAYS: &str =
    r#"perl -e 'defined(my $id = msgget(0, 01600)) or die "$!\n"; msgctl($id, 0, 0)'"#;

pub(crate) fn try_out(plan: &Plan) {
    for (name, line) in [
        ("leave memory behind", MEMORY_THAT_STAYS),
        ("leave a queue behind", QUEUE_THAT_STAYS),
        ("mount", "mount -t tmpfs none /tmp"),
        (
            "mount in other namespaces",
            "unshare -Urm sh -c 'mount --bind / /mnt'",
        ),
        (
            "write from other namespaces",
            "unshare -Ur sh -c 'echo x > \"$OUT/from-ns\"'",
        ),
        ("limit another process", "prlimit --pid \"$VICTIM\" --core=0:0"),
        (
            "limit another issue's agent",
            "prlimit --pid \"${NEIGHBOUR:-none}\" --core=0:0",
        ),
        ("kill by the owner of a pipe", BY_A_PIPE),
        ("join a namespace", "nsenter -t \"$VICTIM\" -a true"),
        ("leave by chroot", "chroot /proc/1/root true"),
        ("device", "mknod dev-sda b 8 0 && head -c1 dev-sda"),
        ("setuid", "sudo -n true"),
        (
            "lease on a file of another",
            "perl -e 'open(my $file, \"<\", \"/etc/passwd\") or die; fcntl($file, 1024, 0) or die \"$!\\n\"'",
        ),
    ] {
        let [victim, neighbour] = ["victim", "neighbour"]
            .map(|name| plan.process(name).map(|pid| pid.to_string()).unwrap_or_default());
        let done = Command::new("sh")
            .args(["-c", line])
            .env("OUT", &plan.outside)
            .env("VICTIM", victim)
            .env("NEIGHBOUR", neighbour)
            .output();
        let tried = match done {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(text(error)),
        };
        report(name, tried);
    }
    let memory = File::options().read(true).open("/dev/mem");
    report("memory of the machine", memory.map(drop).map_err(text));
    // Files could be read from the disk without opening them.
    let disk = disk().ok_or_else(|| "this machine has none".to_owned());
    report(
        "read a disk",
        disk.and_then(|disk| File::open(disk).map(drop).map_err(text)),
    );
    let terminal = fs::read_to_string(plan.runtime_dir.join("terminal")).unwrap_or_default();
    for (name, write) in [
        ("read what is typed at a terminal", false),
        ("write on a terminal", true),
    ] {
        let mut options = File::options();
        options
            .read(!write)
            .write(write)
            .custom_flags(nix::libc::O_NOCTTY | nix::libc::O_NONBLOCK);
        report(name, options.open(&terminal).map(drop).map_err(text));
    }
    let _ = fs::set_permissions("own", fs::Permissions::from_mode(0o600));
}

/// Returns the first disk of this machine.
fn disk() -> Option<PathBuf> {
    let partitions = fs::read_to_string("/proc/partitions").ok()?;
    let names = partitions
        .lines()
        .filter_map(|line| line.split_whitespace().nth(3));
    names
        .map(|name| Path::new("/dev").join(name))
        .find(|disk| disk.exists())
}
