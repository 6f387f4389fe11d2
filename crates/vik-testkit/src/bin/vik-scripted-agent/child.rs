//! Children of the scripted agent, with each way of escaping from a supervisor.
//!
//! A child is this program again. It reports over its stdin, which is a socket, that it is ready
//! (in its own session, its pid written); only then the parent continues. So a test that sees the
//! parent's next step can rely on the child.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::steps;

/// Marks the command line of a child: `FLAG OPTIONS PROGRAM STEPS`.
pub(crate) const FLAG: &str = "--vik-scripted-child";

/// The options of a child, as `setsid,clearenv,pid=FILE`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    setsid: bool,
    double: bool,
    clear_env: bool,
    hold_stdout: bool,
    chdir: Option<String>,
    pid_file: Option<String>,
}

impl Options {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for option in text
            .split(',')
            .filter(|option| !option.is_empty() && *option != "-")
        {
            match option.split_once('=').unwrap_or((option, "")) {
                ("setsid", "") => options.setsid = true,
                ("double", "") => options.double = true,
                ("clearenv", "") => options.clear_env = true,
                ("hold-stdout", "") => options.hold_stdout = true,
                ("cwd", path) => options.chdir = Some(path.to_owned()),
                ("pid", path) => options.pid_file = Some(path.to_owned()),
                _ => return Err(format!("unknown option of a child: {option}")),
            }
        }
        Ok(options)
    }

    fn text(&self) -> String {
        let mut options = Vec::new();
        for (set, option) in [
            (self.setsid, "setsid"),
            (self.double, "double"),
            (self.clear_env, "clearenv"),
            (self.hold_stdout, "hold-stdout"),
        ] {
            if set {
                options.push(option.to_owned());
            }
        }
        options.extend(self.chdir.iter().map(|path| format!("cwd={path}")));
        options.extend(self.pid_file.iter().map(|path| format!("pid={path}")));
        if options.is_empty() {
            "-".to_owned()
        } else {
            options.join(",")
        }
    }

    fn command(&self, program: &str, script: &str) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([FLAG, &self.text(), program, script]);
        command.env_remove("VIK_SCRIPT");
        if self.clear_env {
            command.env_clear();
        }
        if !self.hold_stdout {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        Ok(command)
    }
}

/// Starts a child and waits until it is ready. With `double` it is then no longer a child of this
/// process.
pub(crate) fn spawn(options: &Options, program: &str, script: &str) -> Result<(), String> {
    let (mut ours, theirs) = UnixStream::pair().map_err(|e| e.to_string())?;
    let mut command = options.command(program, script).map_err(|e| e.to_string())?;
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot start a child: {e}"))?;
    drop(command);
    let mut byte = [0];
    ours.read_exact(&mut byte)
        .map_err(|_| "the child ended before it was ready".to_owned())?;
    if options.double {
        child.wait().map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The main function of a child.
pub(crate) fn main(argv: &[String]) -> ExitCode {
    let [_, _, options, program, script, ..] = argv else {
        return steps::fail(crate::exit::BAD_SCRIPT, "a child without a script");
    };
    match apply_options(options, program, script) {
        Ok(true) => steps::run(std::slice::from_ref(program), Vec::new(), script),
        Ok(false) => ExitCode::SUCCESS,
        Err(reason) => steps::fail(crate::exit::STEP, &reason),
    }
}

/// Applies the options. Returns `false` if a child of this process continues instead.
fn apply_options(options: &str, program: &str, script: &str) -> Result<bool, String> {
    let mut options = Options::parse(options)?;
    if options.setsid || options.double {
        nix::unistd::setsid().map_err(|e| format!("setsid: {e}"))?;
    }
    if options.double {
        options.double = false;
        options.setsid = false;
        // It inherits stdin, and with it the task of reporting readiness.
        options
            .command(program, script)
            .and_then(|mut command| command.stdin(Stdio::inherit()).spawn())
            .map_err(|e| format!("cannot start the second child: {e}"))?;
        return Ok(false);
    }
    if let Some(path) = &options.chdir {
        std::env::set_current_dir(path).map_err(|e| format!("{path}: {e}"))?;
    }
    if let Some(path) = &options.pid_file {
        write_pid(Path::new(path))?;
    }
    let stdin = std::io::stdin();
    nix::unistd::write(&stdin, b"r").map_err(|e| format!("cannot tell the parent: {e}"))?;
    let null = std::fs::File::open("/dev/null").map_err(|e| e.to_string())?;
    nix::unistd::dup2_stdin(&null).map_err(|e| e.to_string())?;
    Ok(true)
}

/// Writes the own process id atomically.
pub(crate) fn write_pid(path: &Path) -> Result<(), String> {
    let pid = std::process::id();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{pid}"));
    let fresh = Path::new(&name);
    std::fs::File::create(fresh)
        .and_then(|mut file| writeln!(file, "{pid}"))
        .and_then(|()| std::fs::rename(fresh, path))
        .map_err(|e| format!("{}: {e}", path.display()))
}
