//! The system calls that a sandbox refuses, with each backend and network.

use vik_proc::{Backend, Calls, HostRule, Network, Sandbox};

use crate::support::*;

/// Returns every kind of sandbox that this system supports, with a name.
fn sandboxes(scene: &Scene) -> Vec<(String, Sandbox)> {
    let networks = || {
        let hosts = Network::Hosts(vec![HostRule::parse("127.0.0.1:1").unwrap()]);
        [Network::On, Network::Off, hosts]
    };
    let mut backends = vec![Backend::Landlock];
    backends.extend(bubblewrap("calls").then_some(Backend::Bubblewrap));
    let mut all = Vec::new();
    for backend in backends {
        for network in networks() {
            let sandbox = Sandbox {
                backend,
                calls: Some(Calls {
                    network: network.clone(),
                    ..Calls::default()
                }),
                ..scene.sandbox()
            };
            if sandbox.fence().is_ok() {
                all.push((format!("{backend:?} {network:?}"), sandbox));
            }
        }
    }
    assert!(all.len() >= 2);
    all
}

#[tokio::test]
async fn sandbox_refuses_datagram_sockets() {
    let scene = Scene::new();
    for (name, sandbox) in sandboxes(&scene) {
        let _ = std::fs::remove_file(scene.path("out"));
        let mut spec = scene.spec("pairs");
        spec.sandbox = Some(sandbox);
        let record = scene.end(&scene.start(&spec).await).await;
        assert_eq!(record.code, Some(0), "{name}: {record:?}");
        // The list is printed twice: without flags, and with all flags.
        let made = "1 1 Stream\n1 5 SeqPacket\n";
        assert_eq!(scene.out(), made.repeat(2), "{name}");
    }
    // A sandbox with Unix sockets allows all types of them, and no other family.
    let mut spec = scene.spec("pairs");
    let (_, mut sandbox) = sandboxes(&scene).remove(0);
    sandbox.calls.as_mut().unwrap().unix_sockets = true;
    spec.sandbox = Some(sandbox);
    scene.end(&scene.start(&spec).await).await;
    assert!(scene.out().contains("1 3 Datagram\n"), "{}", scene.out());
    assert!(
        !scene.out().lines().any(|line| !line.starts_with("1 ")),
        "{}",
        scene.out()
    );
}

#[tokio::test]
async fn sandbox_limits_system_v_to_a_page_of_memory() {
    let scene = Scene::new();
    for (name, sandbox) in sandboxes(&scene) {
        let _ = std::fs::remove_file(scene.path("out"));
        let mut spec = scene.spec("system-v");
        spec.sandbox = Some(sandbox);
        scene.end(&scene.start(&spec).await).await;
        let expected =
            "small made\nlarge refused\nenormous refused\nhuge refused\nsemaphores refused\nqueue refused\n";
        assert_eq!(scene.out(), expected, "{name}");
    }
}
