use std::net::SocketAddr;

use super::*;

fn request(head: &str) -> Option<(String, u16, Option<String>)> {
    let request = parse(head.as_bytes())?;
    let forward = request.forward.map(|head| String::from_utf8(head).unwrap());
    Some((request.host, request.port, forward))
}

#[test]
fn proxy_requests_are_parsed() {
    assert_eq!(
        request("CONNECT Api.Example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
        Some(("api.example.com".to_owned(), 443, None))
    );
    let (host, port, head) =
        request("GET http://u:p@h:81/a?b HTTP/1.1\r\nHost: other\r\nProxy-Connection: x\r\nA: b\r\n\r\n")
            .unwrap();
    assert_eq!((host.as_str(), port), ("h", 81));
    assert_eq!(
        head.unwrap(),
        "GET /a?b HTTP/1.1\r\nHost: h:81\r\nConnection: close\r\nA: b\r\n\r\n"
    );
    assert_eq!(request("GET http://h HTTP/1.1\r\n\r\n").unwrap().1, 80);
    for bad in [
        "GET / HTTP/1.1\r\n\r\n",
        "CONNECT h HTTP/1.1\r\n\r\n",
        "CONNECT h:x HTTP/1.1\r\n\r\n",
        "GET https://h/ HTTP/1.1\r\n\r\n",
        "x\r\n\r\n",
        "CONNECT h:1 HTTP/2\r\n\r\n",
    ] {
        assert_eq!(request(bad), None, "{bad}");
    }
}

/// Starts a proxy on the loopback of this machine. Returns its address and the file with its
/// refusals.
fn proxy(rules: &[&str]) -> (SocketAddr, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("refused");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let rules = rules.iter().map(|rule| HostRule::parse(rule).unwrap()).collect();
    serve(vec![(PROXY_PORT, listener)], rules, Some(log.clone())).unwrap();
    (address, folder, log)
}

/// Starts a server that answers each connection with the line that it receives.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut client = BufReader::new(client);
            let mut line = String::new();
            let _ = client.read_line(&mut line);
            let _ = client.get_mut().write_all(line.as_bytes());
        }
    });
    port
}

fn ask(proxy: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn proxy_connects_only_to_listed_hosts() {
    let (open, shut) = (echo(), echo());
    let (address, _folder, log) = proxy(&[&format!("127.0.0.1:{open}"), "*.example.invalid"]);
    let answer = ask(
        address,
        &format!("CONNECT 127.0.0.1:{open} HTTP/1.1\r\n\r\nhello\n"),
    );
    assert!(answer.ends_with("\r\n\r\nhello\n"), "{answer}");
    let answer = ask(
        address,
        &format!("GET http://127.0.0.1:{open}/x HTTP/1.1\r\n\r\n"),
    );
    assert_eq!(answer, "GET /x HTTP/1.1\r\n");
    for refused in [
        format!("CONNECT 127.0.0.1:{shut} HTTP/1.1\r\n\r\nhello\n"),
        format!("CONNECT localhost:{open} HTTP/1.1\r\n\r\nhello\n"),
        format!("GET http://127.0.0.1:{shut}/ HTTP/1.1\r\n\r\n"),
    ] {
        let answer = ask(address, &refused);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
    let refused = read_refusals(&log);
    let ports: Vec<u16> = refused.iter().map(|refusal| refusal.port).collect();
    assert_eq!(ports, [shut, open, shut]);
}

#[test]
fn inner_addresses_are_recognised_in_every_form() {
    assert!(is_inner("127.0.0.1".parse().unwrap()));
    assert!(is_inner("::ffff:127.0.0.1".parse().unwrap()));
    assert!(is_inner("169.254.169.254".parse().unwrap()));
    for disguised in [
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::127.0.0.1",
        "2002:7f00:1::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "fd00::5efe:127.0.0.1",
        "ff02::1",
        "fe80::1",
        "0.0.0.0",
    ] {
        assert!(is_inner(disguised.parse().unwrap()), "{disguised}");
    }
    assert!(!is_inner("192.0.2.1".parse().unwrap()));
}

/// Runs the test on a thread with a network namespace whose loopback also has this address.
#[cfg(target_os = "linux")]
fn with_own_address(address: &str, test: impl FnOnce() + Send + 'static) {
    let address = format!("{address}/32");
    let run = move || {
        // SAFETY: plain numbers; only this thread leaves the namespace, and it ends with the
        // test.
        #[allow(unsafe_code)]
        let left = unsafe { nix::libc::unshare(nix::libc::CLONE_NEWNET) };
        if left != 0 {
            // The test runner captures `eprintln!`, but not this.
            let _ = io::stderr().write_all(b"skipped: a network of its own needs root\n");
            return;
        }
        for args in [
            vec!["link", "set", "lo", "up"],
            vec!["address", "add", &address, "dev", "lo"],
            vec!["route", "add", "local", "10.88.0.0/16", "dev", "lo"],
        ] {
            let done = std::process::Command::new("ip").args(&args).status().unwrap();
            assert!(done.success(), "{args:?}");
        }
        test();
    };
    std::thread::spawn(run).join().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn name_that_resolves_to_an_own_address_is_refused() {
    with_own_address("10.99.99.1", || {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // The rules contain forms of addresses that only a resolver accepts, in place of names:
        // 10.99.99.1 and 10.88.1.1 (which no interface has).
        let rules = ["10.6513409", "10.5767425", "[::ffff:10.99.99.1]"];
        let mut rules = rules.map(|rule| format!("{rule}:{port}")).to_vec();
        rules.push(format!("10.88.7.7:{port}"));
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let (address, _folder, _log) = proxy(&rules);
        for name in ["10.6513409", "10.5767425"] {
            let answer = ask(address, &format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n"));
            assert!(
                answer.contains("its name resolves to this machine"),
                "{name}: {answer}"
            );
        }
        // A rule that names an address literally allows it.
        let served = std::thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            client.write_all(b"hello").unwrap();
        });
        let answer = ask(address, &format!("CONNECT 10.88.7.7:{port} HTTP/1.1\r\n\r\n"));
        assert!(answer.ends_with("hello"), "{answer}");
        served.join().unwrap();
    });
}
