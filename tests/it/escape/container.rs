//! The same tries as an ordinary user: without any capability, and in the parts of a container,
//! which are namespaces and a root of its own, in which no further user namespace can be created.
//!
//! The daemon runs in there, with the agent and its victim. Creating all this needs root; without
//! root the tests are skipped with a message.

use std::os::unix::fs::lchown;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vik_testkit::report_skipped;

use super::{NAMES, Prison, all_stopped};
use crate::support::*;

/// No user has this id.
const USER: u32 = 20_001;

/// Where a daemon runs, and as which user.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// On the host, as the user of the test.
    Here,
    /// On the host, as an ordinary user.
    User,
    /// In a container, as an ordinary user.
    Container,
}

impl Place {
    /// Returns the script that enters the place and runs its arguments there.
    fn enter(self, world: &World) -> String {
        let drop = format!(
            "exec setpriv --reuid {USER} --regid {USER} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \"$@\""
        );
        match self {
            Self::Here | Self::User => drop,
            // A process with a root of its own cannot create a user namespace.
            Self::Container => {
                let root = world.env.path("root");
                std::fs::create_dir(&root).unwrap();
                let inner = format!(
                    "mount --rbind / {0} && cd {0} && exec chroot . sh -c '{drop}' sh \"$@\"",
                    root.display()
                );
                format!(
                    "exec {NAMESPACES} sh -c '{}' sh \"$@\"",
                    inner.replace('\'', "'\\''")
                )
            }
        }
    }
}

/// When the first process exits, however it exits, the kernel kills the others.
const NAMESPACES: &str = "unshare --mount --pid --fork --kill-child --ipc --uts --mount-proc";

/// Returns whether the place can be created; where it cannot, prints that the test is skipped.
pub(super) fn is_available(place: Place) -> bool {
    if matches!(place, Place::Here) {
        return true;
    }
    let works = |script: &str| {
        let mut sh = Command::new("sh");
        let null = Stdio::null;
        let done = sh
            .args(["-c", script])
            .stdin(null())
            .stdout(null())
            .stderr(null())
            .status();
        done.is_ok_and(|status| status.success())
    };
    let why = if !nix::unistd::geteuid().is_root() {
        "it is not run as root"
    } else if !works("command -v setpriv && command -v unshare && command -v chroot") {
        "there is no setpriv, unshare or chroot (util-linux, coreutils)"
    } else if !works(&format!("{NAMESPACES} true")) {
        "namespaces cannot be made here"
    } else {
        return true;
    };
    report_skipped(why);
    false
}

/// Gives the whole world to the user, programs included: the folder in which they were built may be
/// closed to others.
fn give_away(world: &World) {
    let root = world.env.root();
    for link in list(&root.join("bin")) {
        let program = link.canonicalize().unwrap();
        std::fs::remove_file(&link).unwrap();
        std::fs::copy(program, &link).unwrap();
    }
    own(root);
    // The terminal must belong to the user, too: one of another user is closed in any case.
    let terminal = world.env.read("beside/terminal");
    if !terminal.is_empty() {
        own(Path::new(&terminal));
    }
}

/// Runs `vik run --once` in the place, with a victim in the same place.
pub(super) fn once_in(place: Place, world: &World) -> Done {
    if matches!(place, Place::Here) {
        return world.once();
    }
    std::fs::create_dir_all(world.env.path("beside")).unwrap();
    let enter = place.enter(world);
    give_away(world);
    let at = |path: &str| world.env.path(path).display().to_string();
    let (victim, vik, beside) = (at("beside/victim"), at("bin/vik"), at("beside"));
    let inside = format!(
        "cd {work}; cat /proc/self/status > {beside}/status; \
         unshare --user true 2> {beside}/no-users && touch {beside}/users; \
         sleep 600 & echo $! > {victim}; {vik} run --once; code=$?; \
         kill -0 $! && grep -q '^State:.S' /proc/$!/status && touch {beside}/unharmed; kill $!; exit $code",
        work = at("work")
    );
    let mut command = world.env.command("sh");
    command.args(["-c", &enter, "sh", "sh", "-c", &inside]);
    let done = world.start_command(command).done();
    was_in(place, world);
    done
}

/// Checks that the daemon ran in the place, and that the victim ran there to the end.
#[track_caller]
fn was_in(place: Place, world: &World) {
    let status = world.env.read("beside/status");
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert_contains(&status, line);
    }
    assert_contains(&status, format!("Uid:\t{USER}\t{USER}"));
    if matches!(place, Place::Container) {
        assert!(
            !world.env.path("beside/users").exists(),
            "a namespace of users was made"
        );
        assert!(world.env.read("beside/no-users").contains("not permitted"));
    }
    assert!(world.env.path("beside/unharmed").exists());
}

/// Gives a folder with all its content to the user.
fn own(path: &Path) {
    lchown(path, Some(USER), Some(USER)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        list(path).iter().for_each(|path| own(path));
    }
}

fn is_held_in(place: Place, mut prison: Prison, min_stopped: usize) {
    if !is_available(place) {
        return;
    }
    once_in(place, &prison.world).expect(0);
    prison.nothing_was_harmed();
    all_stopped(&prison.lines(), min_stopped, NAMES);
}

#[test]
fn hostile_agent_of_an_ordinary_user_is_confined() {
    is_held_in(Place::User, Prison::new(&json!({})), 90);
}

#[test]
fn hostile_agent_of_an_ordinary_user_reaches_only_listed_hosts() {
    is_held_in(Place::User, Prison::with_listed_hosts(), 140);
}

#[test]
fn hostile_agent_in_a_container_is_confined() {
    is_held_in(Place::Container, Prison::new(&json!({})), 90);
}

#[test]
fn hostile_agent_in_a_container_without_network_is_confined() {
    is_held_in(Place::Container, Prison::new(&json!({"network": "off"})), 100);
}

/// A setting that cannot be enforced there is refused before anything starts, and the message names
/// the alternative.
#[test]
fn container_refuses_a_host_list_at_the_start() {
    if !is_available(Place::Container) {
        return;
    }
    let prison = Prison::with_listed_hosts();
    let done = once_in(Place::Container, &prison.world);
    assert_ne!(done.code, 0, "{done:?}");
    for message in [
        "cannot set up the sandbox of the stage `work` on this system",
        "a list of hosts requires a network namespace",
        "`vik doctor` shows what this system supports",
    ] {
        assert_contains(&done.err, message);
    }
    assert!(prison.world.sessions("1").is_empty() && prison.world.sessions("2").is_empty());
    prison.nothing_came_out();
}

/// A sandbox, a command that exceeds one of its limits, and the message about that.
const FLOODS: [(&str, &str, &str); 2] = [
    (
        r#"{"memory": "64MiB"}"#,
        "head -c 2G /dev/zero | tail -c 2G > /dev/null",
        "the sandbox allows 64 MiB",
    ),
    (
        r#"{"pids": 40}"#,
        "bomb() { bomb | bomb & }; bomb; sleep 600",
        "the sandbox allows 40",
    ),
];

#[test]
fn container_kills_an_agent_over_its_limits_and_reports_it() {
    if !is_available(Place::Container) {
        return;
    }
    for (sandbox, command, message) in FLOODS {
        let sandbox: Value = serde_json::from_str(sandbox).unwrap();
        let agent = json!({"runtime": "command", "command": ["bash", "-c", command], "sandbox": sandbox});
        let world = World::new(&[("1", "todo")]).set("/agents/a", agent).attempts(1);
        once_in(Place::Container, &world).expect(1);
        let log = world.session("1").text(".jsonl");
        assert_contains(&log, message);
    }
}
