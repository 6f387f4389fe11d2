//! A stand-in for `gh api --include`: it sends the request to the socket in `VIK_TEST_GH_SOCKET`
//! and prints what `gh` would print.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a helper of tests"
)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

fn main() {
    let mut args = std::env::args().skip(1);
    assert_eq!(args.next().as_deref(), Some("api"));
    let (mut method, mut input, mut paginate, mut endpoint) = ("GET".to_owned(), String::new(), false, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--include" => {}
            "--paginate" => paginate = true,
            "--method" => method = args.next().unwrap(),
            "--header" => drop(args.next()),
            "--input" => {
                assert_eq!(args.next().as_deref(), Some("-"));
                std::io::stdin().read_to_string(&mut input).unwrap();
            }
            _ => endpoint = Some(arg),
        }
    }
    let endpoint = endpoint.unwrap().replace("{owner}", "o").replace("{repo}", "r");
    let mut path = Some(format!("/{endpoint}"));
    while let Some(next) = path.take() {
        let (head, body) = send(&method, &next, &input);
        let status: u16 = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        print!("{head}\r\n\r\n{body}");
        if status >= 300 {
            eprintln!("gh: HTTP {status}");
            std::process::exit(1);
        }
        let link = head.lines().find_map(|line| line.strip_prefix("Link: "));
        if paginate && let Some(link) = link {
            let url = link.split(['<', '>']).nth(1).unwrap();
            path = Some(url.strip_prefix("https://api.github.com").unwrap().to_owned());
            println!();
        }
    }
}

/// Returns the head and the body of the response.
fn send(method: &str, path: &str, body: &str) -> (String, String) {
    let socket = std::env::var("VIK_TEST_GH_SOCKET").unwrap();
    let mut stream = UnixStream::connect(socket).unwrap_or_else(|_| std::process::exit(1));
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}
