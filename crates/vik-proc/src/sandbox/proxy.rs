//! The proxy of a network namespace: a small HTTP proxy in the shim that connects only to the hosts
//! of a list.
//!
//! It runs outside of the namespace and listens inside: a socket stays in the namespace where it
//! was created. Names are resolved here, once, so that the proxy connects to the address that it
//! has checked.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::hosts::{HostRule, split};
use crate::sys;

/// The port of the proxy in the namespace.
pub const PROXY_PORT: u16 = 3128;
/// The longest head of a request, in bytes.
const MAX_HEAD: u64 = 32 * 1024;
/// The time limit for reading a request, and for connecting to a host.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most connections at once.
const MAX_OPEN: usize = 256;
/// The stack size of a thread that only copies, in bytes.
const STACK: usize = 256 * 1024;
/// The most refusals that are logged.
const MAX_LOGGED: usize = 1000;

/// A connection that was refused: a line of the file that [`read_refusals`] reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The Unix time in milliseconds.
    pub at_ms: u64,
    pub host: String,
    pub port: u16,
    pub why: String,
}

/// Reads the refusals of a proxy. Returns an empty list if it has refused nothing.
pub fn read_refusals(path: &Path) -> Vec<Refusal> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The state that all connections share.
struct Proxy {
    rules: Vec<HostRule>,
    log: Option<PathBuf>,
    open: AtomicUsize,
    refusals_logged: AtomicUsize,
}

/// Serves until this process ends: the first listener as a proxy, each other listener for its own
/// port of this machine.
pub(crate) fn serve(
    listeners: Vec<(u16, TcpListener)>,
    rules: Vec<HostRule>,
    log: Option<PathBuf>,
) -> io::Result<()> {
    let proxy = Arc::new(Proxy {
        rules,
        log,
        open: AtomicUsize::new(0),
        refusals_logged: AtomicUsize::new(0),
    });
    for (port, listener) in listeners {
        let proxy = Arc::clone(&proxy);
        spawn(move || {
            for client in listener.incoming() {
                // The process is out of descriptors or memory, which may be temporary.
                let Ok(client) = client else {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                proxy.serve_client(client, port);
            }
        })?;
    }
    Ok(())
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(work)
        .map(drop)
}

impl Proxy {
    fn serve_client(self: &Arc<Self>, client: TcpStream, port: u16) {
        if self.open.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let proxy = Arc::clone(self);
        let served = spawn(move || {
            let _ = if port == PROXY_PORT {
                proxy.answer(&client)
            } else {
                TcpStream::connect(("127.0.0.1", port)).and_then(|server| both_ways(&client, &server))
            };
            let _ = client.shutdown(Shutdown::Both);
            proxy.open.fetch_sub(1, Ordering::Relaxed);
        });
        if served.is_err() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn answer(&self, client: &TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(TIMEOUT))?;
        let mut reader = BufReader::new(client.try_clone()?);
        let Some(request) = read_request(&mut reader)? else {
            return refuse(client, "400 Bad Request", "not a proxy request");
        };
        let server = match self.connect(&request.host, request.port) {
            Ok(server) => server,
            Err(why) => {
                self.log_refusal(&request, &why);
                return refuse(
                    client,
                    "403 Forbidden",
                    &format!("the sandbox blocks {}: {why}", request.host),
                );
            }
        };
        client.set_read_timeout(None)?;
        match request.forward {
            None => (&*client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
            Some(head) => (&server).write_all(&head)?,
        }
        (&server).write_all(reader.buffer())?;
        both_ways(client, &server)
    }

    /// Connects to a host that a rule allows.
    fn connect(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let rule = self.rules.iter().find(|rule| rule.allows(host, port));
        let rule = rule.ok_or_else(|| "it is not in `sandbox.network`".to_owned())?;
        let addresses = (host, port)
            .to_socket_addrs()
            .map_err(|error| error.to_string())?;
        let mut why = "it has no address".to_owned();
        for address in addresses {
            // A name can resolve to any address.
            if is_inner(address.ip()) && !rule.is_literal() {
                why = "its name resolves to this machine".to_owned();
                continue;
            }
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(server) => return Ok(server),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    fn log_refusal(&self, request: &Request, why: &str) {
        let Some(log) = &self.log else { return };
        if self.refusals_logged.fetch_add(1, Ordering::Relaxed) >= MAX_LOGGED {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let refusal = Refusal {
            at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            host: request.host.clone(),
            port: request.port,
            why: why.to_owned(),
        };
        if let Ok(mut line) = serde_json::to_vec(&refusal) {
            line.push(b'\n');
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(options.append(true).create(true), 0o600);
            let _ = options.open(log).and_then(|mut file| file.write_all(&line));
        }
    }
}

/// Returns whether an address belongs to this machine or is link-local: services there trust every
/// client that can reach them.
fn is_inner(address: IpAddr) -> bool {
    let address = address.to_canonical();
    match address {
        IpAddr::V4(v4)
            if v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast() =>
        {
            true
        }
        IpAddr::V6(v6) if is_inner_v6(v6) => true,
        // The routing table knows every other address of this machine. An address without a route
        // cannot be reached; if the kernel gives no answer, the address may be one of this machine.
        _ => match sys::is_elsewhere(address) {
            Ok(is_elsewhere) => !is_elsewhere,
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
            ),
        },
    }
}

fn is_inner_v6(v6: Ipv6Addr) -> bool {
    v6.is_loopback()
        || v6.is_unicast_link_local()
        || v6.is_unspecified()
        || v6.is_multicast()
        || embedded(v6).is_some_and(|v4| is_inner(v4.into()))
}

/// Returns the IPv4 address to which a tunnel or a translator would forward packets for this
/// address.
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = v6.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        // Padded addresses, and those of NAT64.
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, _, _, _, _, high, low] => Some(v4(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => Some(v4(high, low)),
        // Teredo stores the complement of the client's address.
        [0x2001, 0, .., high, low] => Some(v4(!high, !low)),
        // ISATAP.
        [.., 0 | 0x200, 0x5efe, high, low] => Some(v4(high, low)),
        _ => None,
    }
}

/// A request of a client.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    host: String,
    port: u16,
    /// The head to forward, if the request is not for a tunnel.
    forward: Option<Vec<u8>>,
}

/// Reads the head of a request; returns `None` if it is not one.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let mut limited = reader.take(MAX_HEAD);
    loop {
        let before = head.len();
        let read = limited.read_until(b'\n', &mut head)?;
        if read == 0 {
            return Ok(None);
        }
        if matches!(&head[before..], b"\r\n" | b"\n") {
            return Ok(parse(&head));
        }
    }
}

fn parse(head: &[u8]) -> Option<Request> {
    let text = std::str::from_utf8(head).ok()?;
    let (first, fields) = text.split_once('\n')?;
    let mut tokens = first.trim_end().split(' ');
    let (method, target, version) = (tokens.next()?, tokens.next()?, tokens.next()?);
    if tokens.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    if method == "CONNECT" {
        let (host, port) = split(target)?;
        return Some(Request {
            host,
            port: port?,
            forward: None,
        });
    }
    let address = target
        .get(..7)
        .filter(|scheme| scheme.eq_ignore_ascii_case("http://"))
        .map(|_| &target[7..])?;
    let (authority, path) = match address.find(['/', '?']) {
        Some(at) if address[at..].starts_with('?') => (&address[..at], format!("/{}", &address[at..])),
        Some(at) => (&address[..at], address[at..].to_owned()),
        None => (address, "/".to_owned()),
    };
    let authority = authority.rsplit('@').next()?;
    let (host, port) = split(authority)?;
    // The connection is closed after one request: the next one may be for another host.
    let mut forward = format!("{method} {path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
    for line in fields
        .lines()
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| !line.is_empty())
    {
        let name = line.split(':').next().unwrap_or_default();
        let own = ["host", "connection", "keep-alive", "upgrade"];
        let is_ours = own.iter().any(|own| name.eq_ignore_ascii_case(own));
        let is_proxys = name
            .get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case("proxy-"));
        if !is_ours && !is_proxys {
            forward.push_str(line);
            forward.push_str("\r\n");
        }
    }
    forward.push_str("\r\n");
    Some(Request {
        host,
        port: port.unwrap_or(80),
        forward: Some(forward.into_bytes()),
    })
}

fn refuse(mut client: &TcpStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("{why}\n");
    let length = body.len();
    client.write_all(
        format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
            .as_bytes(),
    )
}

/// Copies in both directions until both sides have closed.
fn both_ways(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    })?;
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    let done = io::copy(&mut from, &mut to).map(drop);
    let _ = to.shutdown(Shutdown::Write);
    done
}

#[cfg(test)]
mod tests;
