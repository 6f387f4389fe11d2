//! Sockets of the machine, and the network. Nothing is sent beyond the loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket, socketpair,
};

use crate::{Allowed, Attempt, Plan, Services, files, proxy, report, report_all, text};

const WAIT: Duration = Duration::from_secs(2);

/// A DNS query for the address of `a.invalid`.
const QUESTION: &[u8] =
    b"\x13\x37\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07invalid\x00\x00\x01\x00\x01";

pub(crate) fn try_out(plan: &Plan) {
    for (number, path) in plan.sockets.iter().enumerate() {
        report(
            &format!("connect to socket {number}"),
            UnixStream::connect(path).map(drop).map_err(text),
        );
    }
    report_all("connect to what is Vik's", &files::paths_of_vik(plan), |path| {
        UnixStream::connect(path).map(drop)
    });
    report(
        "datagrams of the machine",
        UnixDatagram::unbound().map(drop).map_err(text),
    );
    for kind in [SockType::Datagram, SockType::Raw, SockType::Rdm] {
        for flags in [SockFlag::empty(), SockFlag::SOCK_CLOEXEC] {
            let name = format!("send a datagram by a pair of type {kind:?} {flags:?}");
            report(&name, send_over_pair(&plan.datagrams, kind, flags));
        }
    }
    for (name, family, kind) in [
        ("raw socket", AddressFamily::Inet, SockType::Raw),
        ("raw socket of version 6", AddressFamily::Inet6, SockType::Raw),
        #[cfg(target_os = "linux")]
        ("packet socket", AddressFamily::Packet, SockType::Raw),
        #[cfg(target_os = "linux")]
        (
            "packet socket without heads",
            AddressFamily::Packet,
            SockType::Datagram,
        ),
        #[cfg(target_os = "linux")]
        ("socket to the host", AddressFamily::Vsock, SockType::Stream),
        #[cfg(target_os = "linux")]
        (
            "socket of the kernel's ciphers",
            AddressFamily::Alg,
            SockType::SeqPacket,
        ),
    ] {
        report(
            name,
            socket(family, kind, SockFlag::empty(), None)
                .map(drop)
                .map_err(text),
        );
    }
    match &plan.network {
        Allowed::On => {}
        Allowed::Off(services) => {
            reach(services);
            let udp = UdpSocket::bind("127.0.0.1:0").map(drop);
            report("UDP", udp.map_err(text));
            let udp = UdpSocket::bind("[::1]:0").map(drop);
            report("UDP of version 6", udp.map_err(text));
            let listener = TcpListener::bind("127.0.0.1:0").map(drop);
            report("a listener", listener.map_err(text));
        }
        Allowed::Hosts {
            open,
            named,
            services,
        } => {
            reach(services);
            proxy::try_out(*open, *named, services.tcp);
        }
    }
}

/// Connects one end of a socket pair to a socket of the machine.
fn send_over_pair(to: &Path, kind: SockType, flags: SockFlag) -> Attempt {
    let (end, _other) = socketpair(AddressFamily::Unix, kind, None, flags).map_err(text)?;
    let to = UnixAddr::new(to).map_err(text)?;
    connect(end.as_raw_fd(), &to).map_err(text)?;
    send(end.as_raw_fd(), b"x", MsgFlags::empty())
        .map(drop)
        .map_err(text)
}

/// Tries to reach services that are not listed.
fn reach(services: &Services) {
    let to = SocketAddr::from(([127, 0, 0, 1], services.tcp));
    let tcp = TcpStream::connect_timeout(&to, WAIT).map(drop);
    report("TCP", tcp.map_err(text));
    report("an answer over UDP", exchange(services.udp, b"x"));
    report("DNS over UDP", exchange(services.udp, QUESTION));
    let resolver = SocketAddr::from(([127, 0, 0, 53], 53));
    report("DNS of the machine", exchange(resolver, QUESTION));
    let tcp = TcpStream::connect_timeout(&resolver, WAIT).map(drop);
    report("DNS of the machine over TCP", tcp.map_err(text));
    for resolver in resolvers().filter(IpAddr::is_loopback) {
        report(
            &format!("DNS of {resolver}"),
            exchange(SocketAddr::new(resolver, 53), QUESTION),
        );
    }
}

/// Returns the resolvers of this machine.
fn resolvers() -> impl Iterator<Item = IpAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.into_iter().filter_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next() == Some("nameserver")).then(|| fields.next()?.parse().ok())?
    })
}

/// Tries to get an answer to a datagram: that it can be sent proves nothing.
fn exchange(to: SocketAddr, payload: &[u8]) -> Attempt {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    socket.set_read_timeout(Some(WAIT / 4)).map_err(text)?;
    socket.send_to(payload, to).map_err(text)?;
    socket.recv(&mut [0; 512]).map(drop).map_err(text)
}
