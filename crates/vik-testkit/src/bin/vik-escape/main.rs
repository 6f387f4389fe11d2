//! A hostile agent: it tries to get out of its sandbox in every way that is known here, and says of each whether it came
//! through. What it tries to reach stands in the JSON file that `ESCAPE_PLAN` names.
//!
//! Each line of its output is `escaped NAME`, `stopped NAME: WHY`, or `note …`. It exits with 0 whatever came of it.

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

/// What there is to reach.
#[derive(Deserialize)]
struct Plan {
    /// A folder outside of the workspace, with a file `there`.
    outside: PathBuf,
    /// Files that are not to be read.
    secrets: Vec<PathBuf>,
    /// Files and folders that are not to be written, though they are this user's.
    guarded: Vec<PathBuf>,
    /// Sockets of the machine that somebody listens on.
    sockets: Vec<PathBuf>,
    /// One that somebody reads datagrams from.
    datagrams: PathBuf,
    /// The program of its daemon.
    vik: PathBuf,
    /// A folder with what is only known when it runs: in `victim` the id of a process of this user that is not of this
    /// tree, in `neighbour` that of an agent of another issue; in `vik` the files, pipes and sockets of the daemon, one a
    /// line.
    beside: PathBuf,
    /// What of the network is allowed.
    network: Allowed,
}

/// What of the network is allowed. All that is tried is on the loopback.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Allowed {
    /// All of it.
    On,
    /// Nothing.
    Off(Services),
    /// Listed hosts.
    Hosts {
        /// A port of 127.0.0.1 that is listed.
        open: u16,
        /// A port that is listed by a name that leads to 127.0.0.1, `127.1`.
        named: u16,
        /// What is not listed.
        services: Services,
    },
}

/// What listens on the loopback.
#[derive(Deserialize)]
struct Services {
    /// A port of 127.0.0.1 at which a web server answers `shut`.
    tcp: u16,
    /// Where each datagram is answered.
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
    /// The process whose id stands in a file beside.
    fn process(&self, name: &str) -> Option<i32> {
        fs::read_to_string(self.beside.join(name))
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

/// Tells of the same try at many places at once: each that came through is noted.
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
