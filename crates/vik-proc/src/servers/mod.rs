//! Servers of an agent: programs that the shim starts outside of the sandbox of the agent, each in
//! a sandbox of its own, whenever a process of the agent connects to one.
//!
//! A connection is two named pipes in a folder that the agent can write. The process that connects
//! creates them, and names them in a line that it writes to a third one, `REQUESTS`, at which the
//! shim reads. The shim opens and removes both, writes `ACCEPTED`, and starts the server with them
//! as its standard input and output.
//!
//! They are pipes and not a socket: a sandbox refuses sockets by the type alone, as the filter of
//! system calls cannot see paths. A sandbox that permitted them would open every service of the
//! machine that listens on one. Access to a pipe is that to a file.

mod connect;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::os_text;
use crate::sandbox::Sandbox;

pub use connect::main;

/// The argument that makes the program connect to a server: `vik __connect FOLDER NAME`.
pub const CONNECT_VERB: &str = "__connect";

/// The name of the pipe in the folder at which the shim reads requests.
pub(crate) const REQUESTS: &str = "requests";

/// What the shim writes to the client before it starts the server.
pub(crate) const ACCEPTED: [u8; 1] = *b"\n";

/// The servers of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Servers {
    /// An existing folder for the pipes, which only the agent can write. No other user may enter it.
    #[serde(with = "os_text")]
    pub folder: PathBuf,
    /// The file for the error output of the servers and for what the shim refuses (created with mode
    /// 0600). It is outside of every sandbox.
    #[serde(with = "os_text")]
    pub log: PathBuf,
    /// The programs by the names that the agent uses.
    pub programs: BTreeMap<String, ServerSpec>,
}

/// A program that is started for each connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// A path, or a name that is searched for as [`crate::ShimSpec::program`] is.
    #[serde(with = "os_text")]
    pub program: OsString,
    #[serde(with = "os_text")]
    pub args: Vec<OsString>,
    #[serde(with = "os_text")]
    pub cwd: PathBuf,
    /// The whole environment, except the mark of the agent.
    #[serde(with = "os_text")]
    pub env: Vec<(OsString, OsString)>,
    /// Its sandbox. The limits on resources are those of the agent, of whose tree it is a part.
    pub sandbox: Sandbox,
}

/// The pipes of one connection, as seen from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Input,
    Output,
}

/// A line on the pipe of requests: the name of a server, and the id of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) server: String,
    id: String,
}

impl Request {
    /// The maximum length of an id, in bytes.
    #[cfg(any(target_os = "linux", test))]
    const LONGEST_ID: usize = 64;

    pub(crate) fn new(server: &str, id: String) -> Self {
        Self {
            server: server.to_owned(),
            id,
        }
    }

    /// Parses a line without its end; `None` for any other text.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let (server, id) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        let is_id = !id.is_empty() && id.len() <= Self::LONGEST_ID && id.bytes().all(is_plain);
        is_id.then(|| Self::new(server, id.to_owned()))
    }

    pub(crate) fn line(&self) -> String {
        format!("{} {}\n", self.server, self.id)
    }

    /// Returns the name of a pipe in the folder.
    pub(crate) fn pipe(&self, direction: Direction) -> String {
        let suffix = match direction {
            Direction::Input => "in",
            Direction::Output => "out",
        };
        format!("{}.{suffix}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_names_pipes_in_the_folder_only() {
        let request = Request::new("tickets", "17-230".to_owned());
        let line = request.line();
        assert_eq!(Request::parse(line.trim_end().as_bytes()), Some(request.clone()));
        assert_eq!(request.pipe(Direction::Input), "17-230.in");
        let long = format!("a {}", "1".repeat(65));
        for other in ["", "a", "a ", "a ../1", "a 1/2", "a 1 2", "a x", &long] {
            assert_eq!(Request::parse(other.as_bytes()), None, "{other}");
        }
    }
}
