//! Agents in the namespaces of bubblewrap: their environment, their end, and the places that they
//! cannot reach.

use std::path::Path;

use nix::sys::signal::Signal;
use vik_proc::{Backend, Cause, Network, Proof, Reads, ShimSpec, StdoutMode, sweep};

use crate::ending::{a_storm_is_killed, deaf_agents_are_ended};
use crate::starting::{
    codes_and_signals_are_distinguished, gets_exactly_the_spec, start_failures_give_their_reason,
};
use crate::support::*;

/// Creates a scene with namespaces, or ends the test with a message that it was skipped.
macro_rules! walled {
    ($name:literal) => {
        match Scene::with_bubblewrap($name) {
            Some(scene) => scene,
            None => return,
        }
    };
}

/// Returns a spec for a shell script in the scene's folder.
fn shell(scene: &Scene, script: &str) -> ShimSpec {
    let mut spec = scene.spec("");
    spec.program = "sh".into();
    spec.args = vec!["-c".into(), script.into()];
    spec
}

#[tokio::test]
async fn agent_gets_exactly_the_spec() {
    gets_exactly_the_spec(&walled!("walled::agent_gets_exactly_the_spec")).await;
}

#[tokio::test]
async fn exit_code_and_signal_are_distinguished() {
    codes_and_signals_are_distinguished(&walled!("walled::exit_code_and_signal_are_distinguished")).await;
}

#[tokio::test]
async fn start_failure_gives_its_reason() {
    start_failures_give_their_reason(&walled!("walled::start_failure_gives_its_reason")).await;
}

#[tokio::test]
async fn stop_signals_reach_the_agent_and_not_bubblewrap() {
    let scene = walled!("walled::stop_signals_reach_the_agent_and_not_bubblewrap");
    let (supervised, agent) = scene.up(&scene.spec("ready @up hang")).await;
    assert_eq!(supervised.agent(), Some(agent));
    assert!(scene.census().members.contains(&agent));
    supervised.stop();
    let record = scene.end(&supervised).await;
    assert_eq!(
        (record.signal, record.cause, record.proof, record.leftovers_killed),
        (Some(2), Cause::Stopped, Proof::Subreaper, 0)
    );
    deaf_agents_are_ended(&scene).await;
}

#[tokio::test]
async fn leftovers_get_term_and_are_counted() {
    let scene = walled!("walled::leftovers_get_term_and_are_counted");
    let supervised = scene
        .start(&scene.spec("also scd 3 ready @tool hang await @tool exit 3"))
        .await;
    let tool = scene.ready("tool").await;
    let record = scene.end(&supervised).await;
    assert_eq!(
        (record.code, record.cause, record.leftovers_killed, record.proof),
        (Some(3), Cause::Exited, 1, Proof::Subreaper)
    );
    assert!(!tool.is_alive());
    // A process that handles the signal gets its grace.
    let script = "sh -c 'trap \"echo bye > bye; exit\" TERM; echo > up; while :; do sleep 0.01; done' & \
                  while ! [ -e up ]; do sleep 0.01; done";
    let record = scene.end(&scene.start(&shell(&scene, script)).await).await;
    assert_eq!(record.code, Some(0));
    assert_eq!(std::fs::read_to_string(scene.path("bye")).unwrap(), "bye\n");
}

#[tokio::test]
async fn fork_storm_is_killed() {
    a_storm_is_killed(&walled!("walled::fork_storm_is_killed")).await;
}

#[tokio::test]
async fn mark_is_found_inside_and_all_end_with_the_shim() {
    let scene = walled!("walled::mark_is_found_inside_and_all_end_with_the_shim");
    let supervised = scene
        .start(&scene.spec("ignore SIGTERM also scd 3 ready @tool hang ready @up hang"))
        .await;
    let (tool, agent) = (scene.ready("tool").await, scene.ready("up").await);
    let found = sweep(&scene.mark.name, &scene.mark.value, &[]);
    assert!(found.contains(&agent), "{found:?}");
    send(supervised.shim(), Signal::SIGKILL);
    // The kernel ends all processes of the namespace before any search for them.
    wait_for_exit(agent).await;
    wait_for_exit(tool).await;
    let lost = within(supervised.wait()).await.unwrap_err();
    assert!(lost.proof().is_proven(), "{lost:?}");
    scene.assert_nothing_left();
}

#[tokio::test]
async fn later_daemon_adopts_the_shim() {
    let scene = walled!("walled::later_daemon_adopts_the_shim");
    let spec = scene.spec_with_grace("ready @up await @go exit 5", LONG);
    let (mut first, agent) = scene.daemon_up(&spec).await;
    first.die();
    let second = scene.daemon("adopt", &spec).await;
    assert_eq!(second.shim, first.shim);
    assert!(agent.is_alive());
    write(&scene.path("go"), b"");
    let record = scene.record().await;
    assert_eq!((record.code, record.agent), (Some(5), Some(agent)));
}

/// Creates a folder outside of `/tmp`, which is private inside.
fn elsewhere() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[tokio::test]
async fn outside_files_keep_content_mode_owner_and_times() {
    let scene = walled!("walled::outside_files_keep_content_mode_owner_and_times");
    let outside = elsewhere();
    let file = outside.path().join("file");
    write(&file, b"kept");
    let before = std::fs::metadata(&file).unwrap();
    let script = format!(
        "cd {}; for way in 'chmod 777 file' 'chmod 777 .' 'chown {}:{} file' 'touch -d 2001-01-01 file' \
         'sh -c \"echo x > file\"' 'rm file' 'ln file other' 'setfattr -n user.x -v y file' 'mount -o remount,rw .' \
         'unshare -Urm mount -o remount,rw,bind /'; do \
         if $way 2>/dev/null; then echo \"came through: $way\"; fi; done; echo tried",
        outside.path().display(),
        nix::unistd::geteuid(),
        nix::unistd::getegid(),
    );
    scene.end(&scene.start(&shell(&scene, &script)).await).await;
    assert_eq!(scene.out(), "tried\n");
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.permissions(), before.permissions());
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
}

#[tokio::test]
async fn agent_sees_only_its_own_tree() {
    let scene = walled!("walled::agent_sees_only_its_own_tree");
    let mut victim = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mine = format!("/tmp/{}", scene.mark.value);
    write(Path::new(&mine), b"x");
    let script = format!(
        "kill -0 {victim} 2>/dev/null && echo signalled; [ -e /proc/{victim} ] && echo seen; \
         [ -e {mine} ] && echo found; [ -e /dev/vda ] || [ -e /dev/mem ] || [ -e /dev/kmsg ] && echo devices; \
         [ \"$(cat /proc/1/comm)\" = bwrap ] || echo no init; \
         echo x > /tmp/own && cat /tmp/own; echo x > /dev/shm/own && cat /dev/shm/own; \
         ls -d /proc/[0-9]* | wc -l",
        victim = victim.id(),
    );
    let record = scene.end(&scene.start(&shell(&scene, &script)).await).await;
    std::fs::remove_file(&mine).unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(record.code, Some(0), "{record:?}");
    // `bwrap`, the inside, the shell, and two processes of the last line.
    let out = scene.out();
    let (own, processes) = out.trim().rsplit_once('\n').unwrap();
    assert_eq!(own, "x\nx", "{out}");
    assert!(processes.trim().parse::<u32>().unwrap() <= 5, "{out}");
    assert!(!Path::new("/tmp/own").exists());
}

#[tokio::test]
async fn hidden_places_are_empty_and_replacements_unreadable() {
    let scene = walled!("walled::hidden_places_are_empty_and_replacements_unreadable");
    let outside = elsewhere();
    let path = |name: &str| outside.path().canonicalize().unwrap().join(name);
    for folder in ["home/keys", "home/code", "home/vik/mine", "home/vik/other"] {
        std::fs::create_dir_all(path(folder)).unwrap();
    }
    for file in [
        "home/keys/id",
        "home/token",
        "home/note",
        "home/vik/mine/f",
        "home/vik/other/f",
    ] {
        write(&path(file), b"secret");
    }
    let script = format!(
        "cd {}; ls; ls keys vik; cat token; cat note vik/mine/f; echo; echo > {up}; \
         while ! [ -e {go} ]; do sleep 0.01; done; cat code/later; \
         for f in keys/id token absent/key; do cat $f 2>/dev/null && echo \"read $f\"; done; echo done",
        path("home").display(),
        up = scene.path("up").display(),
        go = scene.path("go").display(),
    );
    let mut spec = shell(&scene, &script);
    let hidden = ["home/keys", "home/token", "home/vik", "home/absent/key"]
        .map(path)
        .to_vec();
    if let Some(sandbox) = &mut spec.sandbox
        && let Reads::AllBut { hidden: list, shown } = &mut sandbox.read
    {
        *list = hidden;
        shown.push(path("home/vik/mine"));
    }
    let supervised = scene.start(&spec).await;
    until("it has looked", || scene.path("up").exists()).await;
    // Outside, a person creates a new file, replaces the old keys, and adds some where there were
    // none.
    write(&path("home/code/later"), b"later\n");
    write(&path("home/token.new"), b"secret");
    std::fs::rename(path("home/token.new"), path("home/token")).unwrap();
    std::fs::rename(path("home/keys"), path("home/old-keys")).unwrap();
    for folder in ["home/keys", "home/absent"] {
        std::fs::create_dir(path(folder)).unwrap();
    }
    write(&path("home/keys/id"), b"secret");
    write(&path("home/absent/key"), b"secret");
    write(&scene.path("go"), b"");
    let record = scene.end(&supervised).await;
    assert_eq!(record.code, Some(0), "{record:?} {:?}", scene.out());
    assert_eq!(
        scene.out(),
        "code\nkeys\nnote\ntoken\nvik\nkeys:\n\nvik:\nmine\nsecretsecret\nlater\ndone\n"
    );
}

#[tokio::test]
async fn network_off_and_hosts_show_only_loopback() {
    let scene = walled!("walled::network_off_and_hosts_show_only_loopback");
    for (network, interfaces) in [(Network::Off, "lo\n"), (Network::Hosts(Vec::new()), "lo\n")] {
        let mut spec = shell(&scene, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
        spec.stdout = vik_proc::Output::Append(scene.path(&format!("{network:?}")));
        let name = format!("{network:?}");
        if let Some(calls) = spec.sandbox.as_mut().and_then(|sandbox| sandbox.calls.as_mut()) {
            calls.network = network;
        }
        let record = scene.end(&scene.start(&spec).await).await;
        assert_eq!(record.code, Some(0), "{record:?}");
        assert_eq!(std::fs::read_to_string(scene.path(&name)).unwrap(), interfaces);
    }
}

#[tokio::test]
async fn ordinary_user_gets_the_same_sandbox() {
    let scene = walled!("walled::ordinary_user_gets_the_same_sandbox");
    let Some(supervisor) = crate::sweeping::as_nobody(&scene) else {
        return;
    };
    let ways = [
        (Backend::Bubblewrap, Network::On),
        (Backend::Bubblewrap, Network::Hosts(Vec::new())),
        (Backend::Landlock, Network::Hosts(Vec::new())),
    ];
    for (backend, network) in ways {
        let way = format!("{backend:?} {network:?}");
        let mut spec = shell(&scene, "id -u; grep CapEff /proc/self/status; exit 6");
        let sandbox = spec.sandbox.as_mut().unwrap();
        sandbox.backend = backend;
        sandbox.calls.as_mut().unwrap().network = network;
        let supervised = within(supervisor.spawn(&spec, None, StdoutMode::Null))
            .await
            .unwrap();
        let record = scene.end(&supervised).await;
        assert_eq!(record.code, Some(6), "{way}: {record:?}");
    }
    let once = "65534\nCapEff:\t0000000000000000\n";
    assert_eq!(scene.out(), once.repeat(3));
}
