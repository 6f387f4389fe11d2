use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// A client in a process of its own; it is killed when this is dropped.
struct Client(Child);

impl Client {
    /// Runs a program of `bash` that may use `$PORT`.
    fn run(port: u16, script: &str) -> Self {
        let child = Command::new("bash")
            .args(["-c", script])
            .env("PORT", port.to_string())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn id(&self) -> ProcessId {
        ProcessId::of(self.0.id().cast_signed()).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn me() -> ProcessId {
    ProcessId::current()
}

fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr, SocketAddr) {
    let (stream, peer) = listener.accept().unwrap();
    let local = stream.local_addr().unwrap();
    (stream, peer, local)
}

#[test]
fn the_process_at_the_other_end_is_found_by_every_address_of_this_machine() {
    for (listen, connect) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.7.8.9"),
        ("[::]:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
    ] {
        let Ok(listener) = TcpListener::bind(listen) else {
            continue;
        };
        let port = listener.local_addr().unwrap().port();
        let client = Client::run(port, &format!("exec 3<>/dev/tcp/{connect}/$PORT; read"));
        let (_stream, peer, local) = accept(&listener);
        assert_eq!(
            tcp_peer_descends_from(peer, local, &[client.id()]),
            Some(true),
            "{listen}"
        );
        assert_eq!(
            tcp_peer_descends_from(peer, local, &[me()]),
            Some(true),
            "{listen}"
        );
        assert_eq!(tcp_peer_descends_from(peer, local, &[]), Some(false), "{listen}");
    }
}

#[test]
fn a_child_that_has_the_socket_alone_is_found_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The parent opens it, the child keeps it.
    let script =
        "exec 3<>/dev/tcp/127.0.0.1/$PORT; (sleep 1000 >&- 2>&-) & exec 3>&-; echo closed >&2; read; kill %1";
    let mut client = Client::run(port, script);
    let (_stream, peer, local) = accept(&listener);
    assert_eq!(tcp_peer_descends_from(peer, local, &[client.id()]), Some(true));
    let outside = Client::run(port, "read");
    assert_eq!(tcp_peer_descends_from(peer, local, &[outside.id()]), Some(false));
    client.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    client.0.wait().unwrap();
}

#[test]
fn a_connection_that_its_process_has_closed_is_nobodys() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = Client::run(port, "exec 3<>/dev/tcp/127.0.0.1/$PORT; echo hello >&3");
    let (_stream, peer, local) = accept(&listener);
    client.0.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while tcp_peer(peer, local) != TcpPeer::Closed {
        assert!(Instant::now() < deadline, "{:?}", tcp_peer(peer, local));
        std::thread::yield_now();
    }
    assert_eq!(tcp_peer_descends_from(peer, local, &[]), None);
}

#[test]
fn a_peer_at_an_address_of_another_machine_is_remote() {
    let local = "127.0.0.1:8080".parse().unwrap();
    for peer in ["192.0.2.1:1234", "[2001:db8::1]:1234"] {
        let peer = peer.parse().unwrap();
        assert_eq!(tcp_peer(peer, local), TcpPeer::Remote);
        assert_eq!(tcp_peer_descends_from(peer, local, &[me()]), Some(false));
    }
    let nobody = "127.0.0.1:1".parse().unwrap();
    assert_eq!(tcp_peer(nobody, local), TcpPeer::Closed);
}

/// The addresses of all interfaces are this machine's, not only loopback.
#[test]
fn an_address_of_an_interface_is_this_machines() {
    let own: Vec<_> = getifaddrs()
        .unwrap()
        .filter_map(|interface| ip_of(&interface.address?))
        .collect();
    assert!(!own.is_empty());
    for ip in own {
        assert!(is_own_address(ip), "{ip}");
    }
    assert!(!is_own_address("192.0.2.1".parse().unwrap()));
}

/// What an ordinary user finds of a connection whose process it may not look into.
fn judged_by_an_ordinary_user(peer: SocketAddr, local: SocketAddr, roots: &[ProcessId]) -> String {
    let roots: Vec<_> = roots.iter().map(|root| root.pid.to_string()).collect();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "tcp_peer::tests::judge"])
        .env("JUDGE", format!("{peer} {local} {}", roots.join(" ")))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answer = text.lines().find_map(|line| line.split("judged: ").nth(1));
    answer.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
#[ignore = "it is run as another user"]
fn judge() {
    let asked = std::env::var("JUDGE").unwrap();
    let mut words = asked.split(' ');
    let mut address = || words.next().unwrap().parse().unwrap();
    let (peer, local) = (address(), address());
    let roots: Vec<_> = words.filter_map(|pid| ProcessId::of(pid.parse().ok()?)).collect();
    println!("judged: {:?}", tcp_peer_descends_from(peer, local, &roots));
}

/// Shims hide their files, and nothing follows from that. An agent that hides its own may be who asks.
#[test]
fn a_client_that_hides_is_let_in_beside_shims_and_not_beside_agents_that_hide() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: it needs root");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _hidden = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_stream, peer, local) = accept(&listener);
    let shim = Client::run(port, "read");
    assert_eq!(
        judged_by_an_ordinary_user(peer, local, &[shim.id()]),
        "Some(false)"
    );
    let mut with_agent = Client::run(port, "sleep 1000 & read; kill %1");
    let deadline = Instant::now() + Duration::from_secs(30);
    while crate::tree::descendants(&[with_agent.id().pid]).is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert_eq!(
        judged_by_an_ordinary_user(peer, local, &[with_agent.id()]),
        "None"
    );
    with_agent.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    with_agent.0.wait().unwrap();
}
