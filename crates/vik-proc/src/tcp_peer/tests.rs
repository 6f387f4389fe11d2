use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// A client in a separate process, which is killed on drop.
struct Client(Child);

impl Client {
    /// Runs a `bash` script that may use `$PORT`.
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
fn peer_process_is_found_by_every_own_address() {
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
            tcp_peer(peer, local, &[client.id()]),
            TcpPeer::Descendant,
            "{listen}"
        );
        assert_eq!(tcp_peer(peer, local, &[me()]), TcpPeer::Descendant, "{listen}");
        assert_eq!(tcp_peer(peer, local, &[]), TcpPeer::Other, "{listen}");
    }
}

#[test]
fn child_that_alone_holds_the_socket_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The parent opens the socket, the child keeps it.
    let script =
        "exec 3<>/dev/tcp/127.0.0.1/$PORT; (sleep 1000 >&- 2>&-) & exec 3>&-; echo closed >&2; read; kill %1";
    let mut client = Client::run(port, script);
    let (_stream, peer, local) = accept(&listener);
    assert_eq!(tcp_peer(peer, local, &[client.id()]), TcpPeer::Descendant);
    let outside = Client::run(port, "read");
    assert_eq!(tcp_peer(peer, local, &[outside.id()]), TcpPeer::Other);
    client.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    client.0.wait().unwrap();
}

#[test]
fn closed_connection_has_an_unknown_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = Client::run(port, "exec 3<>/dev/tcp/127.0.0.1/$PORT; echo hello >&3");
    let (_stream, peer, local) = accept(&listener);
    client.0.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while peer_socket(peer, local) != Socket::Closed {
        assert!(Instant::now() < deadline, "{:?}", peer_socket(peer, local));
        std::thread::yield_now();
    }
    assert_eq!(tcp_peer(peer, local, &[]), TcpPeer::Unknown);
}

#[test]
fn peer_on_another_machine_is_remote() {
    let local = "127.0.0.1:8080".parse().unwrap();
    for peer in ["192.0.2.1:1234", "[2001:db8::1]:1234"] {
        let peer = peer.parse().unwrap();
        assert_eq!(peer_socket(peer, local), Socket::Remote);
        assert_eq!(tcp_peer(peer, local, &[me()]), TcpPeer::Other);
    }
    let unused = "127.0.0.1:1".parse().unwrap();
    assert_eq!(peer_socket(unused, local), Socket::Closed);
}

/// All addresses of interfaces belong to this machine, not only those of the loopback.
#[test]
fn interface_addresses_are_own_addresses() {
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

/// A Python program that runs as an ordinary user and inherits the orphans of its descendants, as a
/// shim does. All its processes are killed on drop.
struct Ordinary(Client);

impl Ordinary {
    /// Runs a program that may use `port` and `libc`, and waits until it has printed a line.
    fn run(port: u16, program: &str) -> Self {
        let program = format!(
            "import array, ctypes, encodings.idna, os, signal, socket, sys, threading\nlibc = ctypes.CDLL(None)\nport = {port}\n\
             os.setsid(); libc.prctl(36, 1, 0, 0, 0); signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
             os.setgroups([]); os.setgid(65534); os.setuid(65534); libc.prctl(4, 1, 0, 0, 0)\n{program}"
        );
        let mut child = Command::new("python3")
            .args(["-c", &program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(Client(child))
    }
}

impl Drop for Ordinary {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.0.id().pid);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    }
}

/// Identifies a peer, as an ordinary user, `rounds` times.
fn identified_by_an_ordinary_user(
    peer: SocketAddr,
    local: SocketAddr,
    root: ProcessId,
    rounds: u32,
) -> Vec<String> {
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "tcp_peer::tests::child_process_identifies_the_peer",
        ])
        .env("IDENTIFY", format!("{peer} {local} {} {rounds}", root.pid))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().filter_map(|line| line.split("identified: ").nth(1));
    let found: Vec<_> = found.map(str::to_owned).collect();
    assert_eq!(found.len(), usize::try_from(rounds).unwrap(), "{text}");
    found
}

#[test]
#[ignore = "it is run as another user"]
fn child_process_identifies_the_peer() {
    let input = std::env::var("IDENTIFY").unwrap();
    let mut args = input.split(' ');
    let mut address = || args.next().unwrap().parse().unwrap();
    let (peer, local) = (address(), address());
    let root = ProcessId::of(args.next().unwrap().parse().unwrap()).unwrap();
    for _ in 0..args.next().unwrap().parse().unwrap() {
        println!("\nidentified: {:?}", tcp_peer(peer, local, &[root]));
    }
}

const READY: &str = "print('ready', flush=True)\n";

/// Starts a process of the same user that hides its files, as `sshd` does.
fn hidden(port: u16, program: &str) -> Ordinary {
    Ordinary::run(
        port,
        &format!("libc.prctl(4, 0, 0, 0, 0)\n{program}{READY}sys.stdin.read()"),
    )
}

const CONNECT: &str = "s = socket.create_connection(('127.0.0.1', port))\n";

#[test]
fn connection_of_a_hidden_process_is_hidden() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: it needs root");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let shim = Ordinary::run(port, &format!("{READY}sys.stdin.read()"));
    let _outside = hidden(port, CONNECT);
    let (_stream, peer, local) = accept(&listener);
    assert_eq!(
        identified_by_an_ordinary_user(peer, local, shim.0.id(), 1),
        ["Hidden"]
    );
    // The socket belongs to root, which no agent of an ordinary user can become.
    let _of_root = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_stream, peer, local) = accept(&listener);
    assert_eq!(
        identified_by_an_ordinary_user(peer, local, shim.0.id(), 1),
        ["Other"]
    );
}

/// An agent that moves its connection faster than the search must not be identified as a person,
/// even if another process of the user hides its files.
#[test]
fn agent_that_hides_its_connection_is_never_another() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: it needs root");
    }
    // A call that waits for the answer keeps the connection open after another thread has closed
    // the descriptor.
    let blocked = "threading.Thread(target=libc.recv, args=(s.fileno(), bytes(1), 1, 0)).start()
recvfrom = {'x86_64': '45', 'aarch64': '207'}[os.uname().machine]
while open(f'/proc/self/task/{threading.enumerate()[-1].native_id}/syscall').read().split()[0] != recvfrom: pass
s.close()
print('ready', flush=True)
";
    // Each process hands the connection to its child and ends.
    let forks = "print('ready', flush=True)
for _ in range(100000):
    if os.fork(): os._exit(0)
";
    // Two processes pass the connection to each other.
    let passes = "a, b = socket.socketpair()
fd = s.detach()
if os.fork() == 0: os.close(fd); fd = None; a = b
else: print('ready', flush=True)
for _ in range(1000000):
    if fd is not None: socket.send_fds(a, [b'x'], [fd]); os.close(fd)
    fd = socket.recv_fds(a, 1, 1)[1][0]
    socket.send_fds(a, [b'x'], [fd]); os.close(fd); fd = None
";
    for (program, rounds) in [(blocked, 1), (forks, 60), (passes, 60)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _outside = hidden(port, "");
        // The first process has the role of the shim.
        let keeps = format!(
            "if os.fork(): os.close(1); sys.stdin.read(); os._exit(0)\n{CONNECT}{program}sys.stdin.read()\n"
        );
        let agent = Ordinary::run(port, &keeps);
        let (_stream, peer, local) = accept(&listener);
        let found = identified_by_an_ordinary_user(peer, local, agent.0.id(), rounds);
        assert!(
            !found.iter().any(|found| found == "Other"),
            "{found:?}\n{program}"
        );
    }
}

/// The kernel shows no parent of an ancestor that ends while it is read.
#[test]
fn process_with_ending_ancestors_is_never_an_outsider() {
    const CHECKS: u32 = 100_000;
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: it needs root");
    }
    let forks = "if os.fork(): os.close(1); sys.stdin.read(); os._exit(0)
print('ready', flush=True)
while True:
    if os.fork(): os._exit(0)
";
    let agent = Ordinary::run(0, forks);
    let root = agent.0.id();
    let is_inside = |pid: &i32| {
        let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(*pid)));
        group.is_ok_and(|group| group.as_raw() == root.pid)
    };
    let mut checks = 0;
    while checks < CHECKS {
        assert!(root.is_alive());
        for pid in crate::sys::all_pids().into_iter().filter(is_inside) {
            let process = ProcessId::of(pid);
            for _ in 0..20 {
                let is_outside = descends_from(pid, &[root]) == Some(false);
                assert!(!is_outside || ProcessId::of(pid) != process, "check {checks}");
                checks += 1;
            }
        }
    }
}
