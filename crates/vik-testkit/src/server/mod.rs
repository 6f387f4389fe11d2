//! A scripted model server for each dialect of the agents.
//!
//! OpenAI Responses (with Codex's code mode), Chat Completions and Anthropic Messages, streamed and
//! whole; `/v1/models`, `count_tokens` and the probes of the real CLIs. It needs no async runtime:
//! one thread per connection.

mod answer;
mod anthropic;
mod chat;
mod http;
mod play;
mod request;
mod responses;
mod script;
mod tools;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

use self::http::HttpRequest;
pub use self::request::Dialect;
use self::request::ModelRequest;
pub use self::script::{Malformed, Script, StreamPoint, Times, TokenCount, Tool, Turn};

/// A request and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedRequest {
    /// Milliseconds since the server was started.
    pub at_ms: u64,
    /// Nanoseconds since the Unix epoch.
    pub at_unix_ns: u64,
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The headers, names in lower case; secret values are removed.
    pub headers: BTreeMap<String, String>,
    /// The length of the body.
    pub bytes: usize,
    /// The body, if it is JSON.
    pub body: Value,
    /// The script that answered; absent for probes and side calls.
    pub script: Option<String>,
    /// The number of the script's answer, from 0.
    pub position: Option<u64>,
    /// `ok`, `status`, `drop`, `end`, `stall`, `sse_error`, `malformed`, `side call`, `probe`, `bad
    /// script`, `unexpected`.
    pub outcome: &'static str,
}

/// The options of a server.
#[derive(Debug, Default)]
pub struct ModelServerOptions {
    /// The port; 0 for a free one.
    pub port: u16,
    /// The script of requests that name none.
    pub default: Script,
    pub scripts: HashMap<String, Script>,
    /// A folder of scripts, `NAME.json`, which are read on demand.
    pub script_dir: Option<PathBuf>,
    /// A file that gets a JSON line for each request.
    pub record: Option<PathBuf>,
}

/// A running server, which stops when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    options: ModelServerOptions,
    started: Instant,
    pause: StopSignal,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of answers per script and conversation.
    positions: HashMap<String, u64>,
    recorded: Vec<RecordedRequest>,
    failures: Vec<String>,
    record: Option<File>,
    streams: HashMap<u64, TcpStream>,
    next_stream: u64,
    threads: Vec<JoinHandle<()>>,
}

/// Waits that end when the server stops.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopSignal(Arc<(Mutex<bool>, Condvar)>);

impl StopSignal {
    fn is_stopped(&self) -> bool {
        *lock(&self.0.0)
    }

    /// Waits; returns `true` if the server stopped.
    fn wait(&self, time: Duration) -> bool {
        let guard = lock(&self.0.0);
        let waited = self.0.1.wait_timeout_while(guard, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn stop(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }
}

impl ModelServer {
    /// Starts a server on loopback with one script for all conversations.
    pub fn start(default: Script) -> io::Result<Self> {
        Self::start_with(ModelServerOptions {
            default,
            ..ModelServerOptions::default()
        })
    }

    /// Starts a server with a script in JSON.
    ///
    /// # Panics
    ///
    /// Panics if the script is invalid.
    #[track_caller]
    pub fn start_json(script: Value) -> io::Result<Self> {
        Self::start(Script::from_value(script).unwrap_or_else(|reason| panic!("{reason}")))
    }

    /// Starts a server on loopback.
    pub fn start_with(options: ModelServerOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        let addr = listener.local_addr()?;
        let record = options
            .record
            .as_ref()
            .map(|path| File::options().create(true).append(true).open(path));
        let state = State {
            record: record.transpose()?,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            options,
            started: Instant::now(),
            pause: StopSignal::default(),
            state: Mutex::new(state),
        });
        let accepting = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("model-server".to_owned())
                .spawn(move || accept(&listener, &shared))?
        };
        Ok(Self {
            addr,
            shared,
            accepting: Some(accepting),
        })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns `http://127.0.0.1:PORT`, for `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns `http://127.0.0.1:PORT/v1`, for OpenAI's clients and Codex.
    pub fn v1(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// Returns the requests so far, oldest first, including probes.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.state).recorded.clone()
    }

    /// Returns the requests that used a turn of a script.
    pub fn turns(&self) -> Vec<RecordedRequest> {
        self.requests()
            .into_iter()
            .filter(|request| request.script.is_some())
            .collect()
    }

    /// Returns violations of a turn's `expect`, and invalid or missing scripts.
    pub fn failures(&self) -> Vec<String> {
        lock(&self.shared.state).failures.clone()
    }

    /// Stops the server: closes the connections and waits for all threads.
    pub fn stop(mut self) {
        self.shut_down();
    }

    /// Blocks until the server stops, for the program.
    pub fn join(mut self) {
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }

    fn shut_down(&mut self) {
        self.shared.pause.stop();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.addr);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for stream in lock(&self.shared.state).streams.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let threads = std::mem::take(&mut lock(&self.shared.state).threads);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.pause.is_stopped() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(handle) = stream.try_clone() else { continue };
        let mut state = lock(&shared.state);
        let id = state.next_stream;
        state.next_stream += 1;
        state.streams.insert(id, handle);
        let for_thread = Arc::clone(shared);
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(std::thread::spawn(move || {
            let _ = stream.set_nodelay(true);
            // A client that disconnects is not an error.
            let _ = for_thread.serve(&stream);
            lock(&for_thread.state).streams.remove(&id);
            let _ = stream.shutdown(Shutdown::Both);
        }));
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let Some(http) = http::read(stream)? else {
            return Ok(());
        };
        let body: Value = serde_json::from_slice(&http.body).unwrap_or(Value::Null);
        let dialect = Dialect::of_path(&http.path).filter(|_| http.method == "POST");
        let Some(dialect) = dialect else {
            let (status, answer) = probe(&http, &body);
            let at = self.record(&http, body, None, "probe");
            self.finish(at, Ok("probe"))?;
            let headers = BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
            let with_body = http.method != "HEAD";
            return http::respond(stream, status, &headers, answer.to_string().as_bytes(), with_body);
        };
        let request = ModelRequest::new(dialect, &http, body.clone());
        if request.is_side_call() {
            let at = self.record(&http, body, None, "side call");
            let outcome = play::side_call(stream, &request);
            return self.finish(at, outcome);
        }
        let (name, chosen) = self.select_script(&request);
        let script = match chosen {
            Ok(script) => script,
            Err(reason) => {
                lock(&self.state).failures.push(reason.clone());
                let at = self.record(&http, body, Some((name, 0)), "bad script");
                self.finish(at, Ok("bad script"))?;
                return self.refuse(stream, dialect, &reason);
            }
        };
        let position = self.next_position(&request, &name, &script);
        let done = Turn::text("Done.");
        let turn = script.turn(position).unwrap_or(&done);
        let at = self.record(&http, body, Some((name, position)), "open");
        if let Some(wanted) = &turn.expect
            && !unescaped(&request.body).contains(wanted.as_str())
        {
            let reason = format!("turn {position} expects {wanted:?} in the request");
            lock(&self.state).failures.push(reason.clone());
            self.finish(at, Ok("unexpected"))?;
            return self.refuse(stream, dialect, &reason);
        }
        let outcome = play::play(stream, &request, turn, &self.pause);
        self.finish(at, outcome)
    }

    fn refuse(&self, stream: &TcpStream, dialect: Dialect, reason: &str) -> io::Result<()> {
        let body = play::error_body(dialect, 400, &json!(reason)).to_string();
        let headers = BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
        http::respond(stream, 400, &headers, body.as_bytes(), true)
    }

    /// Returns the script of the newest `SCRIPT` line of the user, or the default, with its name.
    fn select_script(&self, request: &ModelRequest<'_>) -> (String, Result<Script, String>) {
        for text in request.user_texts().iter().rev() {
            if let Some(json) = text_after(text, "SCRIPT_JSON:") {
                // The object may span several lines, with more text after it.
                let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
                let script = match values.next() {
                    Some(Ok(value)) => Script::from_value(value),
                    Some(Err(e)) => Err(format!("SCRIPT_JSON is not JSON: {e}")),
                    None => Err("SCRIPT_JSON is empty".to_owned()),
                };
                let mut hasher = DefaultHasher::new();
                json.hash(&mut hasher);
                return (format!("inline-{:016x}", hasher.finish()), script);
            }
            if let Some(name_line) = text_after(text, "SCRIPT:") {
                let name = name_line.lines().next().unwrap_or_default().trim().to_owned();
                let script = self.load_script(&name);
                return (name, script);
            }
        }
        ("default".to_owned(), Ok(self.options.default.clone()))
    }

    fn load_script(&self, name: &str) -> Result<Script, String> {
        if let Some(script) = self.options.scripts.get(name) {
            return Ok(script.clone());
        }
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && !name.starts_with('.');
        let (true, Some(folder)) = (plain, &self.options.script_dir) else {
            return Err(format!("unknown script {name:?}"));
        };
        let path = folder.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Script::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Counts the answers of a conversation: by a `KEY` line, else by the client's conversation id,
    /// else by its first message.
    fn next_position(&self, request: &ModelRequest<'_>, name: &str, script: &Script) -> u64 {
        let texts = request.user_texts();
        let key = texts
            .iter()
            .rev()
            .find_map(|text| text_after(text, "KEY:")?.lines().next().map(str::trim));
        let conversation = request.conversation();
        let key = match (key, &conversation) {
            (Some(key), _) => format!("{name} key {key}"),
            (None, Some(id)) => format!("{name} id {id}"),
            (None, None) => format!("{name} text {:016x}", request.fingerprint()),
        };
        let unnamed = key.starts_with(&format!("{name} text "));
        let mut state = lock(&self.state);
        let next = state.positions.entry(key).or_insert(0);
        if unnamed && request.is_fresh() && script.turn(*next).is_none() {
            // The script has ended and the first message is repeated: a new run of the same test.
            *next = 0;
        }
        let position = *next;
        *next += 1;
        position
    }

    fn record(
        &self,
        http: &HttpRequest,
        body: Value,
        script: Option<(String, u64)>,
        outcome: &'static str,
    ) -> usize {
        let secret = |name: &str| {
            ["auth", "key", "cookie", "token", "secret"]
                .iter()
                .any(|part| name.contains(part))
        };
        let headers = http.headers.iter().map(|(name, value)| {
            (
                name.clone(),
                if secret(name) {
                    "[secret]".to_owned()
                } else {
                    value.clone()
                },
            )
        });
        let (script, position) = script.unzip();
        let recorded = RecordedRequest {
            at_unix_ns: unix_nanos(),
            bytes: http.body.len(),
            at_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            method: http.method.clone(),
            path: http.path.clone(),
            headers: headers.collect(),
            body,
            script,
            position,
            outcome,
        };
        let mut state = lock(&self.state);
        state.recorded.push(recorded);
        state.recorded.len() - 1
    }

    fn finish(&self, at: usize, outcome: io::Result<&'static str>) -> io::Result<()> {
        let outcome_name = *outcome.as_ref().unwrap_or(&"client gone");
        let state = &mut *lock(&self.state);
        if let Some(recorded) = state.recorded.get_mut(at) {
            recorded.outcome = outcome_name;
            if let Some(file) = &mut state.record
                && let Ok(line) = serde_json::to_string(recorded)
            {
                let _ = writeln!(file, "{line}");
            }
        }
        outcome.map(drop)
    }
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the text after a mark at the start of a line.
fn text_after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let mut remaining = text;
    loop {
        let line = remaining.trim_start_matches([' ', '\t']);
        if let Some(found) = line.strip_prefix(mark) {
            return Some(found);
        }
        remaining = &remaining[remaining.find('\n')? + 1..];
    }
}

/// Returns all strings of a body without their escapes.
fn unescaped(body: &Value) -> String {
    match body {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(unescaped).collect(),
        Value::Object(fields) => fields.values().map(unescaped).collect(),
        _ => String::new(),
    }
}

/// Answers requests that are not for a model.
fn probe(http: &HttpRequest, body: &Value) -> (u16, Value) {
    let path = http.path.as_str();
    if path.ends_with("/messages/count_tokens") {
        return (200, json!({"input_tokens": body.to_string().len() / 4}));
    }
    if path.ends_with("/models") {
        let model = |id: &str| {
            json!({"id": id, "object": "model", "type": "model", "display_name": id, "created": 1_700_000_000,
                "created_at": "2026-01-01T00:00:00Z", "owned_by": "script"})
        };
        let data = json!([model("scripted"), model("gpt-5.5"), model("claude-sonnet-4-5")]);
        return (200, json!({"object": "list", "data": data, "has_more": false}));
    }
    if path == "/" || http.method == "HEAD" {
        return (200, json!({"ok": true}));
    }
    (
        404,
        json!({"error": {"message": format!("{} {path} is not served here", http.method), "type": "not_found"}}),
    )
}
