//! A hostile agent: it tries every known way out of its sandbox and reports each result. The JSON
//! file in `ESCAPE_PLAN` names its targets.
//!
//! Each line of its output is `escaped NAME`, `stopped NAME: WHY`, or `note …`. It always exits
//! with 0.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "without a plan there is nothing to try, and its output is what it is for"
)]

mod files;
mod git;
mod kernel;
mod network;
mod orphan;
mod processes;
mod proxy;
mod vik;

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[derive(Deserialize)]
struct Plan {
    /// A folder outside of the workspace, with a file `there`.
    outside: PathBuf,
    /// Files that must not be readable.
    secrets: Vec<PathBuf>,
    /// Files and folders that must not be writable, though they belong to this user.
    guarded: Vec<PathBuf>,
    /// Sockets of the machine with a listener.
    sockets: Vec<PathBuf>,
    /// A datagram socket with a reader.
    datagrams: PathBuf,
    /// The program of the daemon.
    vik: PathBuf,
    /// A folder with values that are known only at run time: `victim` has the id of a process of
    /// this user outside of this tree, `neighbour` that of an agent of another issue; `vik` lists
    /// the files, pipes and sockets of the daemon, one per line.
    #[serde(rename = "beside")]
    runtime_dir: PathBuf,
    network: Allowed,
}

/// The allowed network. All attempts use the loopback.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Allowed {
    On,
    Off(Services),
    Hosts {
        /// A listed port of 127.0.0.1.
        open: u16,
        /// A port that is listed by the name `127.1`, which resolves to 127.0.0.1.
        named: u16,
        /// Services that are not listed.
        services: Services,
    },
}

/// The services on the loopback.
#[derive(Deserialize)]
struct Services {
    /// A port of 127.0.0.1 with a web server that answers `shut`.
    tcp: u16,
    /// An address at which each datagram is answered.
    udp: SocketAddr,
}

type Attempt = Result<(), String>;

fn main() {
    let plan = std::env::var_os("ESCAPE_PLAN").expect("ESCAPE_PLAN names a file");
    let plan: Plan = serde_json::from_slice(&fs::read(plan).expect("the plan")).expect("a plan");
    if std::env::args().nth(1).as_deref() == Some(orphan::STAY) {
        return orphan::stay(&plan);
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    files::try_out(&plan);
    files::links(&plan);
    git::set_traps(&plan);
    processes::try_out(&plan);
    network::try_out(&plan);
    kernel::try_out(&plan);
    vik::try_out(&plan);
    orphan::leave();
    let _ = std::io::stdout().flush();
}

impl Plan {
    /// Returns the process id from a file in the run-time folder.
    fn process(&self, name: &str) -> Option<i32> {
        fs::read_to_string(self.runtime_dir.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

fn report(name: &str, tried: Attempt) {
    match tried {
        Ok(()) => println!("escaped {name}"),
        Err(why) => println!("stopped {name}: {}", why.replace('\n', " ")),
    }
}

/// Reports the same attempt on several targets as one. Prints a note for each success.
fn report_all<'a>(
    name: &str,
    places: impl IntoIterator<Item = &'a PathBuf>,
    attempt: impl Fn(&Path) -> std::io::Result<()>,
) {
    let (mut out, mut last) = (false, "there was nothing".to_owned());
    for place in places {
        match attempt(place) {
            Ok(()) => {
                out = true;
                println!("note: {name}: {}", place.display());
            }
            Err(why) => last = text(why),
        }
    }
    report(name, if out { Ok(()) } else { Err(last) });
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
