//! Servers of an agent: what it can reach of them, how often they start, and their end.

use std::collections::BTreeMap;
use std::path::Path;

use nix::sys::signal::Signal;
use vik_proc::servers::{CONNECT_VERB, ServerSpec, Servers};
use vik_proc::{Backend, Calls, Cause, Graces, Network, ProcessId, Sandbox, ShimSpec};

use crate::support::*;

/// Returns the secret of the server, which no other scene has.
fn secret(scene: &Scene) -> String {
    format!("a-secret-of-{}", scene.mark.value)
}

/// A server that answers each line with it and its secret, until its input ends.
const ECHO: &str = "echo $$ > server.pid; echo start >> starts; \
                    while read -r line; do echo \"got $line, $SECRET\"; done";

/// A server that ignores the end of its input and all signals, and leaves a process behind.
const DEAF: &str = "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; while :; do sleep 1; done' & \
                    echo $$ > server.pid; while :; do sleep 1; done";

/// Returns a spec for an agent that is a shell script, with a server that is one too. No network is
/// permitted, and no socket.
fn spec(scene: &Scene, backend: Backend, agent: &str, server: &str) -> ShimSpec {
    let sandbox = Sandbox {
        backend,
        calls: Some(Calls {
            network: Network::Off,
            ..Calls::default()
        }),
        ..scene.sandbox()
    };
    let folder = scene.path("pipes");
    std::fs::create_dir(&folder).unwrap();
    let path = || ("PATH".into(), std::env::var_os("PATH").unwrap());
    let server = ServerSpec {
        program: "sh".into(),
        args: vec!["-c".into(), server.into()],
        cwd: scene.folder.path().to_owned(),
        env: vec![path(), ("SECRET".into(), secret(scene).into())],
        sandbox: sandbox.clone(),
    };
    let mut spec = scene.spec("");
    spec.program = "sh".into();
    let connect = format!(
        "connect() {{ exec {PROGRAM} {CONNECT_VERB} {} \"$1\"; }}\n",
        folder.display()
    );
    spec.args = vec!["-c".into(), (connect + agent).into()];
    spec.sandbox = Some(sandbox);
    spec.servers = Some(Servers {
        folder,
        log: scene.path("log"),
        programs: BTreeMap::from([("tickets".to_owned(), server)]),
    });
    spec
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Waits for the server, and returns its process.
async fn server(scene: &Scene) -> ProcessId {
    let pid = |text: String| text.trim().parse::<i32>().ok();
    eventually("the server runs", || pid(read(&scene.path("server.pid")))).await;
    let secret = secret(scene);
    let marked = |pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&secret)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // The control for the agent, which must not find it: an unconfined process of the user does.
    let found = pids.find(|pid| marked(*pid)).expect("a process has the secret");
    ProcessId::of(found).unwrap()
}

/// Tries every way to the secret that the same user has without a sandbox.
const SEARCH: &str = "
( echo one; while ! [ -e searched ]; do sleep 0.01; done; echo two ) | connect tickets | sed 's/a-sec.*/and its secret/' > answers &
while ! [ -e outside.pid ]; do sleep 0.01; done
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' > seen
( cat /proc/$(cat outside.pid)/environ ) > tried 2>&1 && echo 'environ was read' >> tried
( dd if=/proc/$(cat outside.pid)/mem count=1 ) > /dev/null 2>&1 && echo 'memory was read' >> tried
( ls -l /proc/$(cat outside.pid)/fd/ /proc/$(cat outside.pid)/cwd/ ) > /dev/null 2>&1 && echo 'files were listed' >> tried
ls pipes > pipes.txt
while ! [ -e checked ]; do sleep 0.01; done
echo > searched; wait
";

async fn agent_gets_answers_and_no_secret(backend: Backend) {
    let scene = Scene::new();
    let spec = spec(&scene, backend, SEARCH, ECHO);
    let supervised = scene.start(&spec).await;
    let server = server(&scene).await;
    write(&scene.path("pid"), server.pid.to_string().as_bytes());
    std::fs::rename(scene.path("pid"), scene.path("outside.pid")).unwrap();
    until("the agent has searched", || scene.path("pipes.txt").exists()).await;
    assert!(server.is_alive());
    write(&scene.path("checked"), b"");
    let record = scene.end(&supervised).await;
    assert_eq!((record.code, record.leftovers_killed), (Some(0), 0), "{record:?}");
    let answers = read(&scene.path("answers"));
    assert_eq!(answers, "got one, and its secret\ngot two, and its secret\n");
    let seen = read(&scene.path("seen"));
    assert!(seen.contains("connect"), "it sees its own processes: {seen}");
    assert!(!seen.contains(&secret(&scene)), "{seen}");
    let tried = read(&scene.path("tried"));
    for way in ["was read", "were listed"] {
        assert!(!tried.contains(way), "{tried}");
    }
    // The pipes of a connection have no name any more.
    assert_eq!(read(&scene.path("pipes.txt")), "requests\n");
    assert_eq!(read(&scene.path("log")), "");
}

#[tokio::test]
async fn agent_in_landlock_gets_answers_and_no_secret() {
    agent_gets_answers_and_no_secret(Backend::Landlock).await;
}

#[tokio::test]
async fn agent_in_namespaces_gets_answers_and_no_secret() {
    if bubblewrap("servers::agent_in_namespaces_gets_answers_and_no_secret") {
        agent_gets_answers_and_no_secret(Backend::Bubblewrap).await;
    }
}

#[tokio::test]
async fn dead_server_starts_again_until_the_bound() {
    let scene = Scene::new();
    let agent = "i=0; while [ $i -lt 52 ]; do (connect tickets < /dev/null >> answers); i=$((i+1)); done; \
                 (connect other < /dev/null); echo 'tickets ../x' > pipes/requests; exit 0";
    let server = "echo start >> starts; echo here; exit 3";
    let supervised = scene.start(&spec(&scene, Backend::Landlock, agent, server)).await;
    let record = scene.end(&supervised).await;
    assert_eq!(record.code, Some(0));
    assert_eq!(read(&scene.path("starts")).lines().count(), 50);
    assert_eq!(read(&scene.path("answers")).lines().count(), 50);
    let log = read(&scene.path("log"));
    let refused = "vik: refused to start tickets: it was started 50 times already\n";
    let unknown = "vik: refused to start other: there is no such server\n";
    assert_eq!(log, format!("{refused}{refused}{unknown}"));
    let errors = read(&scene.path("err"));
    assert!(
        errors.contains("cannot connect to the server tickets: it was refused"),
        "{errors}"
    );
}

#[tokio::test]
async fn only_some_run_at_a_time() {
    let scene = Scene::new();
    let agent = "for i in 1 2 3 4 5 6 7 8 9 10; do \
                 (while ! [ -e go ]; do sleep 0.01; done | connect tickets) & done; wait";
    let server = "echo start >> starts; read line";
    let supervised = scene.start(&spec(&scene, Backend::Landlock, agent, server)).await;
    let refused = "vik: refused to start tickets: 8 of it run already\n";
    until("two are refused", || {
        read(&scene.path("log")) == refused.repeat(2)
    })
    .await;
    until("eight run", || read(&scene.path("starts")).lines().count() == 8).await;
    write(&scene.path("go"), b"");
    scene.end(&supervised).await;
}

#[tokio::test]
async fn failed_start_is_logged() {
    let scene = Scene::new();
    let mut spec = spec(&scene, Backend::Landlock, "connect tickets", "");
    let servers = spec.servers.as_mut().unwrap();
    servers.programs.get_mut("tickets").unwrap().program = "no-such-server".into();
    let record = scene.end(&scene.start(&spec).await).await;
    assert_eq!(record.code, Some(1));
    let log = read(&scene.path("log"));
    assert_eq!(log, "vik: cannot execute no-such-server: not found on PATH\n");
}

#[tokio::test]
async fn server_ends_after_its_client() {
    let scene = Scene::new();
    let agent = "sleep 600 | connect tickets & client=$!; while ! [ -e server.pid ]; do sleep 0.01; done; \
                 while ! [ -e go ]; do sleep 0.01; done; kill -9 $client; \
                 while ! [ -e ended ]; do sleep 0.01; done; kill %1; exit 0";
    let supervised = scene.start(&spec(&scene, Backend::Landlock, agent, DEAF)).await;
    let server = server(&scene).await;
    write(&scene.path("go"), b"");
    wait_for_exit(server).await;
    write(&scene.path("ended"), b"");
    scene.end(&supervised).await;
}

/// An agent that waits while its deaf server runs.
const WAITING: &str = "sleep 600 | connect tickets & while ! [ -e server.pid ]; do sleep 0.01; done; \
                       while ! [ -e go ]; do sleep 0.01; done; exit 4";

async fn no_server_survives(backend: Backend) {
    for end in ["exits", "stop", "kill", "lost"] {
        let scene = Scene::new();
        let mut spec = spec(&scene, backend, WAITING, DEAF);
        spec.graces = Graces {
            kill: DEADLINE,
            ..Graces::default()
        };
        let supervised = scene.start(&spec).await;
        let server = server(&scene).await;
        match end {
            "exits" => write(&scene.path("go"), b""),
            "stop" => supervised.stop(),
            "kill" => supervised.kill(),
            _ => {
                send(supervised.shim(), Signal::SIGKILL);
                let lost = within(supervised.wait()).await.unwrap_err();
                assert!(lost.proof().is_proven(), "{lost:?}");
                wait_for_exit(server).await;
                scene.assert_nothing_left();
                continue;
            }
        }
        let record = scene.end(&supervised).await;
        let cause = match end {
            "exits" => Cause::Exited,
            "stop" => Cause::Stopped,
            _ => Cause::Killed,
        };
        assert_eq!(record.cause, cause, "{end}: {record:?}");
        assert!(!server.is_alive(), "{end}");
    }
}

#[tokio::test]
async fn no_server_survives_the_end_of_its_agent() {
    no_server_survives(Backend::Landlock).await;
}

#[tokio::test]
async fn no_server_in_namespaces_survives_the_end_of_its_agent() {
    if bubblewrap("servers::no_server_in_namespaces_survives_the_end_of_its_agent") {
        no_server_survives(Backend::Bubblewrap).await;
    }
}
