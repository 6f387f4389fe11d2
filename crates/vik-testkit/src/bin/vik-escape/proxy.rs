//! Ways around a list of hosts, through the proxy of the list.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::{Attempt, report, text};

/// The address of the proxy in the sandbox.
const PROXY: (&str, u16) = ("127.0.0.1", 3128);

/// `open` is listed, `named` is listed by a name that resolves to this machine, `shut` is not
/// listed. Each answers every request with its name here.
pub(crate) fn try_out(open: u16, named: u16, shut: u16) {
    let ok = ask(&format!("GET http://127.0.0.1:{open}/ HTTP/1.1\r\n\r\n"));
    // Otherwise the following attempts would prove nothing.
    println!(
        "note: the proxy leads to the listed host: {}",
        ok.contains("open")
    );
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::]",
    ] {
        let tunnel = format!("CONNECT {host}:{shut} HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        report(&format!("tunnel to {host}"), reached(&tunnel));
        let get = format!("GET http://{host}:{shut}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
        report(&format!("ask for {host}"), reached(&get));
    }
    for (name, request) in [
        (
            "a listed host as the user",
            format!("GET http://127.0.0.1:{open}@127.0.0.1:{shut}/ HTTP/1.1\r\n\r\n"),
        ),
        (
            "a listed host before a backslash",
            format!("GET http://127.0.0.1:{open}\\@127.0.0.1:{shut}/ HTTP/1.1\r\n\r\n"),
        ),
        (
            "a listed host behind a fragment",
            format!("GET http://127.0.0.1:{shut}#@127.0.0.1:{open}/ HTTP/1.1\r\n\r\n"),
        ),
        (
            "a listed host as the query",
            format!("GET http://127.0.0.1:{shut}?@127.0.0.1:{open}/ HTTP/1.1\r\n\r\n"),
        ),
        (
            "another host in the field",
            format!("GET http://127.0.0.1:{open}/ HTTP/1.1\r\nHost: 127.0.0.1:{shut}\r\n\r\n"),
        ),
        (
            "a second request behind the first",
            format!(
                "GET http://127.0.0.1:{open}/ HTTP/1.1\r\n\r\nGET http://127.0.0.1:{shut}/ HTTP/1.1\r\n\r\n"
            ),
        ),
        (
            "a tunnel within a tunnel",
            format!("CONNECT 127.0.0.1:{open} HTTP/1.1\r\n\r\nCONNECT 127.0.0.1:{shut} HTTP/1.1\r\n\r\n"),
        ),
        (
            "a line break in the target",
            format!("CONNECT 127.0.0.1:{shut}\rx 127.0.0.1:{open} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        ),
        (
            "a zero in the host",
            format!("CONNECT 127.0.0.1\0.127.0.0.1:{shut} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        ),
        (
            "a port beyond the last",
            format!(
                "CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                u32::from(shut) + 65536
            ),
        ),
        (
            "two ports",
            format!("CONNECT 127.0.0.1:{shut}:{open} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        ),
        (
            "two targets",
            format!("CONNECT 127.0.0.1:{shut} 127.0.0.1:{open} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        ),
        (
            "a tab for a space",
            format!(
                "CONNECT\t127.0.0.1:{shut}\tHTTP/1.1 127.0.0.1:{open} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
            ),
        ),
        (
            "a name that leads here",
            format!("CONNECT 127.1:{named} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        ),
        (
            "a name that leads here, asked",
            format!("GET http://127.1:{named}/ HTTP/1.1\r\n\r\n"),
        ),
        (
            "what a name leads to",
            format!("CONNECT 127.0.0.1:{named} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        ),
    ] {
        report(name, reached(&request));
    }
}

/// Returns whether the response comes from a host that is not allowed.
fn reached(request: &str) -> Attempt {
    let answer = ask(request);
    if ["\r\n\r\nshut", "\r\n\r\nnamed"]
        .iter()
        .any(|from| answer.contains(from))
    {
        return Ok(());
    }
    let first = answer.lines().next().unwrap_or("nothing came back");
    let last = answer.lines().last().unwrap_or_default();
    Err(format!("{first} {last}"))
}

fn ask(request: &str) -> String {
    let answer = || {
        let mut stream = TcpStream::connect(PROXY)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        if answer.is_empty() {
            read?;
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    answer().unwrap_or_else(|error: std::io::Error| text(error))
}
