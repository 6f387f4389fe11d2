//! The folder of all logs: creates, resumes, forks and lists sessions.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::entry::{FORMAT, LogLine};
use super::{Entry, ForkPoint, Head, Log, SessionError, SessionId};
use crate::conversation::Message;

/// How much of the end of a log is read for a listing, in bytes.
const TAIL_BYTES: u64 = 64 * 1024;
/// How long a session may seem to be in use after its process has ended.
const LOCK_GRACE: Duration = Duration::from_millis(500);

/// The folder of all logs.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A conversation in a listing.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    pub head: Head,
    pub started_at: Timestamp,
    /// When its last line was written.
    pub updated_at: Timestamp,
    /// The first line of its first prompt.
    pub title: String,
    /// How its last process ended; absent if it is running, or did not end in order.
    pub ended: Option<String>,
    /// Whether a process works on it now.
    pub running: bool,
}

impl Store {
    /// Returns the store of this user: below `VEX_HOME`, else `vex` below `XDG_STATE_HOME` or
    /// `~/.local/state`.
    ///
    /// # Errors
    /// When none of these is set.
    pub fn of_user() -> Result<Self, SessionError> {
        Self::locate(|name| std::env::var_os(name))
    }

    /// Returns a file beside the folder of the sessions.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    fn locate(env: impl Fn(&str) -> Option<OsString>) -> Result<Self, SessionError> {
        let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("VEX_HOME")
            .or_else(|| Some(absolute("XDG_STATE_HOME")?.join("vex")))
            .or_else(|| Some(absolute("HOME")?.join(".local/state/vex")))
            .ok_or(SessionError::NoHome)?;
        Ok(Self::at(home.join("sessions")))
    }

    /// Returns the store in this folder.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, id: SessionId) -> PathBuf {
        self.folder.join(format!("{id}.jsonl"))
    }

    /// Creates a conversation.
    ///
    /// # Errors
    /// When its file cannot be created.
    pub fn create(&self, head: &Head) -> Result<Log, SessionError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(io("create", &self.folder))?;
        let path = self.path(head.id);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(io("create", &path))?;
        let file = lock(file, head.id, &path)?;
        let mut log = Log::open(file, path, 1, 0);
        log.append(&Entry::Session(Box::new(head.clone())))?;
        Ok(log)
    }

    /// Resumes a conversation that was started in the folder `cwd`. `fold` receives all entries, in
    /// order. An incomplete last line is removed.
    ///
    /// # Errors
    /// When it is missing, in use, damaged, or belongs to another folder.
    pub fn resume(
        &self,
        id: SessionId,
        cwd: &str,
        mut fold: impl FnMut(Entry),
    ) -> Result<(Log, Head), SessionError> {
        let path = self.path(id);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&path)
            .map_err(|source| self.open_error(id, source))?;
        let file = lock(file, id, &path)?;
        let mut lines = Lines::new(&file, &path);
        let head = lines.head(id)?;
        if head.cwd != cwd {
            return Err(SessionError::Elsewhere { id, cwd: head.cwd });
        }
        while let Some(line) = lines.next()? {
            fold(line.entry);
        }
        let (seq, length) = (lines.seq + 1, lines.length);
        file.set_len(length).map_err(io("write", &path))?;
        Ok((Log::open(file, path, seq, length), head))
    }

    /// Starts a conversation with the entries of another one up to a turn. The model, the provider,
    /// the folder and the system prompt are those of `head`, or of the other one if the folder is
    /// the same.
    ///
    /// # Errors
    /// As [`Store::resume`], or when there are fewer turns.
    pub fn fork(
        &self,
        from: ForkPoint,
        mut head: Head,
        mut fold: impl FnMut(Entry),
    ) -> Result<(Log, Head), SessionError> {
        let path = self.path(from.id);
        let file = File::open(&path).map_err(|source| self.open_error(from.id, source))?;
        let mut lines = Lines::new(&file, &path);
        let other = lines.head(from.id)?;
        if other.cwd == head.cwd && other.version == head.version {
            head.system = other.system;
        }
        head.forked_from = Some(from);
        // Read completely before anything is created: a wrong turn leaves no file behind.
        let mut taken = Vec::new();
        let mut turns = 0;
        while let Some(LogLine { entry, .. }) = lines.next()? {
            let message = match &entry {
                Entry::Message { message } => Some(message),
                _ => None,
            };
            let answer = matches!(message, Some(Message::Assistant(_)));
            if from.turn.is_some_and(|last| turns >= last) {
                // After the last turn, only the results of its own calls are copied.
                let follows =
                    matches!(message, Some(Message::Tool(_))) || matches!(entry, Entry::Plan { .. });
                let first = turns == 0 && matches!(entry, Entry::Prompt { .. } | Entry::Environment { .. });
                if !(follows || first) {
                    break;
                }
            }
            turns += u32::from(answer);
            if !matches!(entry, Entry::Resumed { .. } | Entry::End { .. } | Entry::Unknown) {
                taken.push(entry);
            }
        }
        if from.turn.is_some_and(|last| turns < last) {
            return Err(SessionError::NoSuchTurn { id: from.id, turns });
        }
        let mut log = self.create(&head)?;
        for entry in taken {
            log.append(&entry)?;
            fold(entry);
        }
        Ok((log, head))
    }

    /// Removes a conversation that is not in use.
    ///
    /// # Errors
    /// When it is missing, in use, or cannot be removed.
    pub fn remove(&self, id: SessionId) -> Result<(), SessionError> {
        let path = self.path(id);
        let file = File::open(&path).map_err(|source| self.open_error(id, source))?;
        let _held = lock(file, id, &path)?;
        std::fs::remove_file(&path).map_err(io("remove", &path))
    }

    fn open_error(&self, id: SessionId, source: std::io::Error) -> SessionError {
        if source.kind() == std::io::ErrorKind::NotFound {
            return SessionError::Unknown {
                id,
                folder: self.folder.clone(),
            };
        }
        io("open", &self.path(id))(source)
    }

    /// Lists all readable conversations, the latest first.
    ///
    /// # Errors
    /// When the folder cannot be read; a missing folder is no error.
    pub fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io("read", &self.folder)(error)),
        };
        let ids = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let id = name.to_str()?.strip_suffix(".jsonl")?;
            id.parse::<SessionId>().ok()
        });
        let mut listed: Vec<_> = ids.filter_map(|id| self.info(id).ok()).collect();
        listed.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then(b.head.id.cmp(&a.head.id)));
        Ok(listed)
    }

    /// Returns the listing of one conversation.
    ///
    /// # Errors
    /// When it is missing or its first line cannot be read.
    pub fn info(&self, id: SessionId) -> Result<SessionInfo, SessionError> {
        let path = self.path(id);
        let mut file = File::open(&path).map_err(|source| self.open_error(id, source))?;
        let mut lines = Lines::new(&file, &path);
        let head = lines.head(id)?;
        let started_at = lines.at;
        let mut title = String::new();
        while let Some(line) = lines.next()? {
            if let Entry::Prompt { text } = line.entry {
                let first = text.lines().find(|line| !line.trim().is_empty());
                title = first.unwrap_or_default().trim().chars().take(120).collect();
                break;
            }
        }
        let last = last_line(&mut file).map_err(io("read", &path))?;
        let ended = last.as_ref().and_then(|line| match &line.entry {
            Entry::End { reason } => Some(reason.clone()),
            _ => None,
        });
        let updated_at = last.map_or(started_at, |line| line.at);
        let running = Flock::lock(file, FlockArg::LockSharedNonblock).is_err();
        Ok(SessionInfo {
            head,
            started_at,
            updated_at,
            title,
            ended,
            running,
        })
    }
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> SessionError {
    let path = path.to_owned();
    move |source| SessionError::Io { action, path, source }
}

/// Locks the log of a session. A process that was killed while it started a command leaves its lock
/// to that command until it is executed: a moment later, the lock is free.
fn lock(mut file: File, id: SessionId, path: &Path) -> Result<Flock<File>, SessionError> {
    let deadline = Instant::now() + LOCK_GRACE;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, Errno::EWOULDBLOCK)) if Instant::now() < deadline => file,
            Err((_, Errno::EWOULDBLOCK)) => return Err(SessionError::InUse(id)),
            Err((_, other)) => return Err(io("lock", path)(other.into())),
        };
        std::thread::sleep(LOCK_GRACE / 50);
    }
}

/// Returns the last complete line, if it is valid.
fn last_line(file: &mut File) -> std::io::Result<Option<LogLine>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let mut lines = tail.rsplit(|&byte| byte == b'\n');
    // The part after the last line break is empty or half a line.
    lines.next();
    Ok(lines.next().and_then(|line| serde_json::from_slice(line).ok()))
}

/// The complete lines of a log, in order.
struct Lines<'a> {
    reader: BufReader<&'a File>,
    path: &'a Path,
    buffer: Vec<u8>,
    /// The number of the last valid line.
    seq: u64,
    /// When it was written.
    at: Timestamp,
    /// The length of all valid lines.
    length: u64,
}

impl<'a> Lines<'a> {
    fn new(file: &'a File, path: &'a Path) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, file),
            path,
            buffer: Vec::new(),
            seq: 0,
            at: Timestamp::UNIX_EPOCH,
            length: 0,
        }
    }

    fn head(&mut self, id: SessionId) -> Result<Head, SessionError> {
        let damaged = || SessionError::Damaged {
            path: self.path.to_owned(),
            line: 1,
        };
        match self.next()?.map(|line| line.entry) {
            Some(Entry::Session(head)) if head.format > FORMAT => Err(SessionError::TooNew {
                path: self.path.to_owned(),
                version: head.format,
            }),
            Some(Entry::Session(head)) if head.id == id => Ok(*head),
            _ => Err(damaged()),
        }
    }

    /// Returns the next line, or `None` at the end and at an incomplete last line.
    fn next(&mut self) -> Result<Option<LogLine>, SessionError> {
        let Some(line) = self.read()? else {
            return Ok(None);
        };
        match line {
            Ok(line) if line.seq == self.seq + 1 => {
                self.seq = line.seq;
                self.at = line.at;
                self.length += self.buffer.len() as u64;
                Ok(Some(line))
            }
            _ => {
                let damaged = self.seq + 1;
                while let Some(later) = self.read()? {
                    if later.is_ok() {
                        return Err(SessionError::Damaged {
                            path: self.path.to_owned(),
                            line: damaged,
                        });
                    }
                }
                Ok(None)
            }
        }
    }

    #[allow(
        clippy::type_complexity,
        reason = "a line, that is none, at the end, or not to be read"
    )]
    fn read(&mut self) -> Result<Option<Result<LogLine, serde_json::Error>>, SessionError> {
        self.buffer.clear();
        let read = self.reader.read_until(b'\n', &mut self.buffer);
        read.map_err(io("read", self.path))?;
        if !self.buffer.ends_with(b"\n") {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&self.buffer)))
    }
}
