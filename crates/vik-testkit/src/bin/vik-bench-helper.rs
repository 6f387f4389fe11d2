//! The pull command and the agent of `cargo xtask bench`; it records times.
//!
//! It is small, so that it does not distort the measurement. As `pull`, `codex` and `claude` in the
//! `bin` folder of a scenario its name decides what it does; under its own name it runs a program and
//! records its resource usage. The scenario's folder has `agent` (what the agent does) and
//! `marks/`, which gets times as nanoseconds since the Unix epoch.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// The minimum time between two fresh issues, so that one is worked on at a time.
const FRESH_GAP: Duration = Duration::from_millis(900);

fn main() -> io::Result<()> {
    let start = nanos();
    if std::env::args_os().nth(1).is_some_and(|arg| arg == "measure") {
        return measure();
    }
    let program = std::env::current_exe()?;
    let scene = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let name = program.file_name().unwrap_or_default();
    if name == "pull" {
        pull(scene, start)
    } else {
        agent(
            scene,
            start,
            if name == "claude" {
                OPENING_CLAUDE
            } else {
                OPENING_CODEX
            },
        )
    }
}

/// The first lines of Codex and of Claude Code.
const OPENING_CODEX: &str = "{\"type\":\"thread.started\",\"thread_id\":\"01a1ffcc-0000-7000-8000-000000000000\"}\n\
                             {\"type\":\"turn.started\"}\n";
const OPENING_CLAUDE: &str =
    "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\",\"tools\":[]}\n";

fn nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `measure FILE PROGRAM ARGUMENTS…`: runs the program. FILE gets six numbers: the start in
/// nanoseconds since the Unix epoch, the duration in nanoseconds, the CPU time of the program and
/// its waited-for descendants in microseconds, that of the program alone, the peak memory of the
/// largest of them in bytes, and the exit code.
fn measure() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(2);
    let file = arguments.next().unwrap_or_default();
    let mut program = std::process::Command::new(arguments.next().unwrap_or_default());
    let start = nanos();
    let mut child = program.args(arguments).spawn()?;
    let own_cpu = cpu_at_end(child.id())?;
    let wall = nanos() - start;
    let status = child.wait()?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = |time: TimeVal| time.num_microseconds();
    let cpu = micros(usage.user_time()) + micros(usage.system_time());
    let peak = usage.max_rss() * 1024;
    std::fs::write(
        file,
        format!(
            "{start} {wall} {cpu} {own_cpu} {peak} {}",
            status.code().unwrap_or(-1)
        ),
    )
}

/// Waits for the end of a process and returns its own CPU time in microseconds. The process can
/// still be waited for.
#[cfg(target_os = "linux")]
fn cpu_at_end(pid: u32) -> io::Result<i64> {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
    waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
    let time = nix::time::clock_getcpuclockid(pid)?.now()?;
    Ok(time.num_microseconds())
}

#[cfg(not(target_os = "linux"))]
fn cpu_at_end(_pid: u32) -> io::Result<i64> {
    Ok(0)
}

/// `pull fresh [FILE]`: first the issues of the file, if there is one, then one new issue at most
/// every [`FRESH_GAP`]. `pull once FILE`: first the issues of the file, then none. `pull window
/// [COUNT]`: see [`pull_window`].
fn pull(scene: &Path, start: u64) -> io::Result<()> {
    let marks = scene.join("marks");
    let mut arguments = std::env::args_os().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let last = marks.join("last");
    let mut stdout = io::stdout().lock();
    if kind == "window" {
        let waiting = arguments.next().and_then(|count| count.to_str()?.parse().ok());
        return pull_window(scene, waiting.unwrap_or(WAITING), &mut stdout);
    }
    if kind != "fresh" {
        let file = arguments.next().unwrap_or_default();
        let first = File::create_new(&last).is_ok();
        return stdout.write_all(
            if first {
                std::fs::read(file)?
            } else {
                b"[]".to_vec()
            }
            .as_slice(),
        );
    }
    let before = std::fs::read_to_string(&last).unwrap_or_default();
    if let Some(file) = arguments.next().filter(|_| before.is_empty()) {
        std::fs::write(&last, format!("100 {start}"))?;
        return stdout.write_all(&std::fs::read(file)?);
    }
    let (number, at) = before.split_once(' ').unwrap_or(("0", "0"));
    let (number, at) = (number.parse().unwrap_or(0_u32), at.parse().unwrap_or(0_u64));
    if u128::from(start - at) < FRESH_GAP.as_nanos() {
        return stdout.write_all(b"[]");
    }
    let number = number + 1;
    std::fs::write(&last, format!("{number} {start}"))?;
    let issue =
        format!(r#"[{{"id":"b-{number}","title":"Issue {number}","state":"todo","description":"Do it."}}]"#);
    stdout.write_all(issue.as_bytes())?;
    stdout.flush()?;
    let end = nanos();
    std::fs::write(marks.join(format!("b-{number}.pull")), end.to_string())
}

/// The numbers of issues that [`pull_window`] prints before and, if it is not given, after the first one
/// to do.
const DONE: u32 = 50;
const WAITING: u32 = 40;

/// Prints the issues around the first one to do, as a tracker that lists recent issues: those before
/// it are done, and soon no longer listed. No issue follows the number in the file `limit`. The file
/// `next` gets the number of the first one to do.
fn pull_window(scene: &Path, waiting: u32, stdout: &mut impl Write) -> io::Result<()> {
    let read = |name: &str| -> Option<u32> { std::fs::read_to_string(scene.join(name)).ok()?.parse().ok() };
    let limit = read("limit").unwrap_or(0);
    let mut next = read("next").unwrap_or(1);
    let is_done = |number: u32| scene.join(format!("marks/b-{number}.done")).exists();
    while next <= limit && is_done(next) {
        next += 1;
    }
    std::fs::write(scene.join("next.new"), next.to_string())?;
    std::fs::rename(scene.join("next.new"), scene.join("next"))?;
    let issue = |number: u32| {
        let state = if is_done(number) { "done" } else { "todo" };
        format!(r#"{{"id":"b-{number}","title":"Issue {number}","state":"{state}","description":"Do it."}}"#)
    };
    let listed = next.saturating_sub(DONE).max(1)..=limit.min(next + waiting);
    let issues: Vec<String> = listed.map(issue).collect();
    stdout.write_all(format!("[{}]", issues.join(",\n")).as_bytes())
}

/// Prints a session of an agent with these first lines; the file `agent` says what follows, until
/// the last lines of Codex.
fn agent(scene: &Path, start: u64, opening: &str) -> io::Result<()> {
    let issue = std::env::current_dir()?;
    let issue = issue
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    std::fs::write(
        scene.join("marks").join(format!("{issue}.agent")),
        start.to_string(),
    )?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    // Not `Stdout`, which scans every line: the output may be large.
    let mut stdout = File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    stdout.write_all(opening.as_bytes())?;
    let plan = std::fs::read_to_string(scene.join("agent"))?;
    match plan.split_once(' ') {
        Some(("flood", file)) => print_all(Path::new(file), &mut stdout)?,
        // Opening a FIFO for reading waits until it is opened for writing.
        Some(("hold", fifo)) => drop(File::open(fifo)?),
        Some(("pace", args)) if number(&issue) <= 100 => {
            let (rate, file) = args.split_once(' ').unwrap_or((args, ""));
            print_at_rate(rate.parse().unwrap_or(1), Path::new(file), &mut stdout)?;
        }
        Some(("tell", args)) => {
            let (file, fifo) = args.split_once(' ').unwrap_or((args, ""));
            print_all(Path::new(file), &mut stdout)?;
            drop(File::open(fifo)?);
        }
        _ => {}
    }
    let closing = "{\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\",\"type\":\"agent_message\",\"text\":\"Done.\"}}\n\
                   {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":10,\"cached_input_tokens\":0,\"output_tokens\":5}}\n";
    stdout.write_all(closing.as_bytes())
}

/// Returns the number of `b-NUMBER`.
fn number(issue: &str) -> u32 {
    issue
        .rsplit('-')
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Prints this many lines of the file per second, again and again, until it is killed.
fn print_at_rate(rate: u64, file: &Path, stdout: &mut File) -> io::Result<()> {
    let text = std::fs::read(file)?;
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let (started, mut printed) = (std::time::Instant::now(), 0);
    loop {
        let due = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX) * rate / 1000;
        let mut chunk = Vec::new();
        for line in printed..due {
            chunk.extend_from_slice(lines[usize::try_from(line).unwrap_or(0) % lines.len()]);
        }
        printed = due;
        stdout.write_all(&chunk)?;
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn print_all(file: &Path, stdout: &mut File) -> io::Result<()> {
    let mut file = File::open(file)?;
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(()),
            count => stdout.write_all(&chunk[..count])?,
        }
    }
}
