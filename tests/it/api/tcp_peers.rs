//! Clients over TCP: agents are refused whatever credentials they have, and clients without a token
//! block no other client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vik_testkit::HttpClient;

use super::{Served, done, instance};
use crate::support::*;

/// The time limit of an answer: long enough for a busy machine, and much shorter than any time
/// limit of the server.
const SOON: Duration = Duration::from_secs(5);

/// Each function asks to pause the daemon, and hides in its own way which process asks.
const ATTACK: &str = r#"
import ctypes, json, os, socket, threading, time
target = json.load(open("target.json"))
HOST, PORT = target["address"].split(":")
libc = ctypes.CDLL(None, use_errno=True)

def request(path="/api/v1/pause", body="{}", token=target["token"]):
    head = [f"POST {path} HTTP/1.1", f"Host: {HOST}:{PORT}", f"Authorization: Bearer {token}", "Connection: close",
            "Content-Type: application/json", f"Content-Length: {len(body)}", "", body]
    return "\r\n".join(head).encode()

def read(s):
    return s.recv(12).decode()

def ask(s, data=None):
    s.sendall(data or request())
    return read(s)

def plain():
    return ask(socket.create_connection((HOST, int(PORT))))

def mapped():
    s = socket.socket(socket.AF_INET6)
    s.connect(("::ffff:127.0.0.1", int(PORT)))
    return ask(s)

def from_another_address():
    return ask(socket.create_connection((HOST, int(PORT)), source_address=("127.9.9.9", 0)))

def session_of_its_own():
    s = socket.create_connection((HOST, int(PORT)))
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(w, ask(s).encode())
        os._exit(0)
    s.close()
    return os.read(r, 100).decode()

def files_of_a_thread():
    found = []
    def run():
        assert libc.unshare(0x400) == 0
        found.append(plain())
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]

def in_flight():
    a, b = socket.socketpair()
    s = socket.create_connection((HOST, int(PORT)))
    data = request()
    s.sendall(data[:-9])
    socket.send_fds(a, [b"x"], [s.fileno()])
    s.sendall(data[-9:])
    s.close()
    time.sleep(0.5)
    return read(socket.socket(fileno=socket.recv_fds(b, 1, 1)[1][0]))

def hidden():
    libc.prctl(4, 0, 0, 0, 0)
    return plain()

def closed():
    s = socket.create_connection((HOST, int(PORT)))
    s.sendall(request())
    s.close()
    return "HTTP/1.1 403"

def link():
    body = json.dumps({"code": target["code"]})
    return ask(socket.create_connection((HOST, int(PORT))), request("/api/v1/sign-in", body, "none"))

ways = [plain, mapped, from_another_address, session_of_its_own, files_of_a_thread, in_flight, closed, link, hidden]
with open("answers.tmp", "w") as out:
    json.dump({way.__name__: way() for way in ways}, out)
os.rename("answers.tmp", "answers.json")
"#;

#[test]
fn agent_with_the_token_is_refused_however_it_connects() {
    // Without a sandbox the agent can also read the file of the token.
    let world = World::new(&[("1", "todo")])
        .set("/agents/a/sandbox", json!("off"))
        .script("wait-file target.json; run python3 attack.py; touch over; wait-file go; ok")
        .work("hooks/before_run", json!("cp \"{{ workflow_dir }}/attack.py\" ."));
    world.env.write("work/attack.py", ATTACK);
    let served = Served::of(world);
    let workspace = served.world.workspace("1");
    eventually("the agent is up", || workspace.join("attack.py").exists());
    let printed = served.world.vik(&["status", "--link"]).expect(0).out;
    let code = printed
        .split("code=")
        .nth(1)
        .and_then(|tail| tail.split_whitespace().next());
    let target = json!({"address": served.address, "token": served.token, "code": code});
    std::fs::write(workspace.join("target.tmp"), target.to_string()).unwrap();
    std::fs::rename(workspace.join("target.tmp"), workspace.join("target.json")).unwrap();
    eventually("the agent has asked", || workspace.join("over").exists());
    let answers = served.world.workspace_file("1", "answers.json");
    let answers: serde_json::Map<String, Value> =
        serde_json::from_str(&answers).unwrap_or_else(|error| panic!("{error}: {answers}"));
    assert_eq!(answers.len(), 9);
    for (way, answer) in answers {
        assert_eq!(answer, "HTTP/1.1 403", "{way}");
    }
    // A person with the same token, and with the link that the agent has tried, gets in.
    assert_eq!(served.get("/state")["paused"], false);
    let reply = served.stranger().post("/api/v1/sign-in", &json!({"code": code}));
    let _ = reply.expect_status(200);
    assert_eq!(log_lines(&served.world, "refused a request of an agent"), 1);
    std::fs::write(workspace.join("go"), "").unwrap();
    served.world.wait_for_state("1", "done");
    served.end();
}

/// Requests the state over TCP with the token and on the control socket, and writes the answers to
/// a file.
const ASK: &str = r#"
import json, os, socket, sys, time
folder, name = sys.argv[1:]
while not os.path.exists(folder + "/target.json"):
    time.sleep(0.02)
target = json.load(open(folder + "/target.json"))
host, port = target["address"].split(":")

def ask(s):
    s.sendall(f"GET /api/v1/state HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
              f"Authorization: Bearer {target['token']}\r\n\r\n".encode())
    return s.makefile("rb").read().decode()

tcp = ask(socket.create_connection((host, int(port))))
unix = socket.socket(socket.AF_UNIX)
unix.connect(target["socket"])
with open(name + ".tmp", "w") as out:
    json.dump([tcp, ask(unix)], out)
os.rename(name + ".tmp", name + ".json")
"#;

/// Runs an issue whose hooks and `verify` send requests, and returns for each of them whether it
/// was refused.
fn script_refusals(world: World, names: &[&str]) -> Vec<bool> {
    world.env.write("work/ask.py", ASK);
    let served = Served::of(world);
    let socket = instance(&served.world).join("vik.sock");
    let target = json!({"address": served.address, "token": served.token, "socket": socket});
    served.world.env.write("work/target.tmp", target.to_string());
    let work = served.world.env.work();
    std::fs::rename(work.join("target.tmp"), work.join("target.json")).unwrap();
    served.world.wait_for_state("1", "done");
    let refused = |name: &&str| {
        let answers = served.world.workspace_file("1", &format!("{name}.json"));
        let answers: [String; 2] = serde_json::from_str(&answers).unwrap();
        let refused = answers
            .each_ref()
            .map(|answer| answer.contains("agents must not"));
        let served = answers
            .each_ref()
            .map(|answer| answer.starts_with("HTTP/1.1 200"));
        assert!(
            refused[0] == refused[1] && served == refused.map(|refused| !refused),
            "{name}: {answers:?}"
        );
        refused[0]
    };
    let refused = names.iter().map(refused).collect();
    served.end();
    refused
}

fn ask(name: &str) -> String {
    format!("python3 \"{{{{ workflow_dir }}}}/ask.py\" \"{{{{ workflow_dir }}}}\" {name}\n")
}

#[test]
fn script_with_agent_code_is_refused_and_host_hook_is_not() {
    let world = || World::new(&[("1", "todo")]).work("verify", json!(ask("verify")));
    let after_run = |world: &World| format!("{}{}", ask("after_run"), world.on_success("done"));

    let plain = world().set("/agents/a/sandbox", json!("off"));
    let hooks = json!({"before_run": ask("before_run"), "after_run": after_run(&plain)});
    let refused = script_refusals(plain.work("hooks", hooks), &["before_run", "verify", "after_run"]);
    assert_eq!(refused, [false, true, false]);

    let confined = world();
    let hooks = json!({"before_run": ask("before_run"), "after_run": after_run(&confined), "sandbox": true});
    let names = ["before_run", "verify", "after_run"];
    assert_eq!(script_refusals(confined.work("hooks", hooks), &names), [true; 3]);
}

/// Returns how often the log of the daemon contains this text.
fn log_lines(world: &World, text: &str) -> usize {
    let logs = list(&world.home().join("logs"));
    let logs = logs.iter().filter(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("vik.log"))
    });
    let lines = logs.map(|path| std::fs::read_to_string(path).unwrap().matches(text).count());
    lines.sum()
}

#[test]
fn flood_without_a_token_blocks_no_authorised_client() {
    let served = done();
    let flood = Flood::start(&served.address);
    let before = flood.opened();
    for _ in 0..20 {
        for client in [
            served.client(),
            HttpClient::unix(instance(&served.world).join("vik.sock")),
        ] {
            let started = Instant::now();
            let _ = client.get("/api/v1/state").expect_status(200);
            assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
        }
    }
    let mut events = served.client().events("/api/v1/events");
    let started = Instant::now();
    served.world.vik(&["status"]).expect(0);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    // Later connections do not close one that has shown its token.
    let opened = flood.opened();
    assert!(opened > before, "connections are opened all the time");
    eventually("all connections were replaced", || flood.opened() > opened + 600);
    super::until(&mut events, |event| event.event == "pulled");
    drop(flood);
    assert_eq!(
        log_lines(&served.world, "too many connections to the HTTP API"),
        1
    );
    served.end();
}

#[test]
fn connections_without_a_token_are_limited() {
    let served = done();
    let open: Vec<_> = (0..400)
        .map(|_| TcpStream::connect(&served.address).unwrap())
        .collect();
    let closed = || {
        let ended = |mut stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            !matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        open.iter().map(ended).collect::<Vec<_>>()
    };
    eventually("the oldest are closed", || {
        closed().iter().filter(|closed| **closed).count() == 400 - 256
    });
    assert!(
        closed()[..400 - 256].iter().all(|closed| *closed),
        "the oldest first"
    );
    served.end();
}

/// Opens connections and sends nothing, or half of a request, until it is stopped.
struct Flood {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(address: &str) -> Self {
        let (stop, opened) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let threads = (0..2)
            .map(|which| {
                let (stop, opened) = (Arc::clone(&stop), Arc::clone(&opened));
                let address = address.to_owned();
                std::thread::spawn(move || {
                    let mut open = std::collections::VecDeque::new();
                    while !stop.load(Ordering::Relaxed) {
                        let Ok(mut stream) = TcpStream::connect(&address) else {
                            continue;
                        };
                        if which == 0 {
                            let _ = stream.write_all(b"GET /api/v1/state HTTP/1.1\r\nHost: ");
                        }
                        open.push_back(stream);
                        opened.fetch_add(1, Ordering::Relaxed);
                        if open.len() > 700 {
                            open.pop_front();
                            // More than a thousand connections stay open; new ones come faster than
                            // a person can open them.
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                })
            })
            .collect();
        let flood = Self {
            stop,
            opened,
            threads,
        };
        eventually("the flood is there", || flood.opened() > 1500);
        flood
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
