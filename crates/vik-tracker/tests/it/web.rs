//! A small HTTP/1.1 server on loopback, for fakes of the APIs of trackers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// How long the server waits for a client.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct WebRequest {
    pub method: String,
    /// The path and the query as they were sent.
    pub target: String,
    /// The path as it was sent.
    pub path: String,
    /// The decoded parameters of the query, in their order.
    pub query: Vec<(String, String)>,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as it was sent.
    pub text: String,
    /// The body, if it is JSON; otherwise null.
    pub body: Value,
}

impl WebRequest {
    /// Reads one request; `None` if the client disconnects before it has sent one.
    pub fn read(stream: impl Read) -> io::Result<Option<Self>> {
        let mut reader = BufReader::new(stream);
        let line = read_line(&mut reader)?;
        let mut parts = line.split_whitespace();
        let (Some(method), Some(target)) = (parts.next(), parts.next()) else {
            return Ok(None);
        };
        let mut headers = Vec::new();
        while let Some((name, value)) = read_line(&mut reader)?.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (
                decoded(&name.replace('+', " ")),
                decoded(&value.replace('+', " ")),
            )
        };
        let mut request = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            path: path.to_owned(),
            query: query
                .split('&')
                .filter(|text| !text.is_empty())
                .map(pair)
                .collect(),
            headers,
            text: String::new(),
            body: Value::Null,
        };
        let body = if request.header("transfer-encoding") == Some("chunked") {
            read_chunks(&mut reader)?
        } else {
            let length = request.header("content-length").unwrap_or("0");
            let mut body = vec![0; length.parse().map_err(io::Error::other)?];
            reader.read_exact(&mut body)?;
            body
        };
        request.text = String::from_utf8_lossy(&body).into_owned();
        request.body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Some(request))
    }

    /// Returns the first header of this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Returns the first parameter of the query with this name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    /// Returns the decoded parts of the path.
    pub fn segments(&self) -> Vec<String> {
        self.path.split('/').skip(1).map(decoded).collect()
    }
}

#[derive(Clone, Debug)]
pub struct WebResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl WebResponse {
    /// Creates a response with JSON; null is an empty body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: if body.is_null() {
                String::new()
            } else {
                body.to_string()
            },
        }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the response. A body of which `missing` bytes are never sent looks cut off.
    pub fn write(&self, mut stream: impl Write, missing: usize) -> io::Result<()> {
        let mut text = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = self.body.len() + missing;
        text.push_str(&format!("Content-Length: {length}\r\n\r\n{}", self.body));
        stream.write_all(text.as_bytes())?;
        stream.flush()
    }
}

/// Why the server does not answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It answers with this response instead of that of the handler.
    Respond(WebResponse),
    /// It closes the connection without a response. The handler is not called.
    Close,
    /// It calls the handler, and closes the connection without its response.
    CloseAfterwards,
    /// It closes the connection before it has sent the whole body.
    Truncate,
}

type Handler = Box<dyn FnMut(&WebRequest) -> WebResponse + Send>;
type Condition = Box<dyn FnMut(&WebRequest) -> bool + Send>;

#[derive(Default)]
struct Shared {
    requests: Vec<WebRequest>,
    /// A fault, and which requests it applies to.
    fault: Option<(Condition, Fault)>,
    is_stopped: bool,
}

/// A running server, which stops when it is dropped. It answers one request after the other, and
/// closes each connection.
pub struct WebServer {
    addr: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Starts a server on a free port.
    pub fn start(handler: impl FnMut(&WebRequest) -> WebResponse + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (state, mut handler): (_, Handler) = (Arc::clone(&shared), Box::new(handler));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if lock(&state).is_stopped {
                    return;
                }
                // A client that disconnects is no error.
                let _ = stream.and_then(|stream| serve(&state, &mut handler, &stream));
            }
        });
        Self {
            addr,
            shared,
            thread: Some(thread),
        }
    }

    /// Returns the address for clients, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Answers this number of requests, and all others with a fault.
    pub fn fail_after(&self, mut answered: usize, fault: Fault) {
        self.fail_when(fault, move |_| {
            let is_used_up = answered == 0;
            answered = answered.saturating_sub(1);
            is_used_up
        });
    }

    /// Answers the requests that fulfil a condition with a fault.
    pub fn fail_when(&self, fault: Fault, condition: impl FnMut(&WebRequest) -> bool + Send + 'static) {
        lock(&self.shared).fault = Some((Box::new(condition), fault));
    }

    /// Answers all requests again.
    pub fn recover(&self) {
        lock(&self.shared).fault = None;
    }

    /// Returns the requests since the last call, the oldest first.
    pub fn take_requests(&self) -> Vec<WebRequest> {
        std::mem::take(&mut lock(&self.shared).requests)
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        lock(&self.shared).is_stopped = true;
        // This ends the wait for a connection.
        let _ = TcpStream::connect(self.addr);
        // A panic of the handler is a failure of the test.
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the handler has panicked");
        }
    }
}

/// A fake of an API: a server, and the state that its responses depend on.
pub struct Fake<S> {
    pub server: WebServer,
    state: Arc<Mutex<S>>,
}

impl<S: Send + 'static> Fake<S> {
    pub fn start(state: S, respond: fn(&mut S, &WebRequest) -> WebResponse) -> Self {
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let server = WebServer::start(move |request| respond(&mut shared.lock().unwrap(), request));
        Self { server, state }
    }

    pub fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap()
    }

    /// Returns the requests that were not only reading, and forgets all requests.
    pub fn changes(&self) -> Vec<String> {
        let requests = self.server.take_requests().into_iter();
        requests
            .filter(|request| request.method != "GET")
            .map(|request| format!("{} {} {}", request.method, request.target, request.text))
            .collect()
    }
}

fn serve(shared: &Mutex<Shared>, handler: &mut Handler, stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let Some(request) = WebRequest::read(stream)? else {
        return Ok(());
    };
    let fault = {
        let mut shared = lock(shared);
        shared.requests.push(request.clone());
        let fault = shared.fault.as_mut();
        fault.and_then(|(condition, fault)| condition(&request).then(|| fault.clone()))
    };
    match fault {
        None => handler(&request).write(stream, 0),
        Some(Fault::Respond(response)) => response.write(stream, 0),
        Some(Fault::Close) => Ok(()),
        Some(Fault::CloseAfterwards) => {
            handler(&request);
            Ok(())
        }
        Some(Fault::Truncate) => handler(&request).write(stream, 1),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = pairs.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let length = usize::from_str_radix(&read_line(reader)?, 16).map_err(io::Error::other)?;
        let start = body.len();
        body.resize(start + length, 0);
        reader.read_exact(&mut body[start..])?;
        read_line(reader)?;
        if length == 0 {
            return Ok(body);
        }
    }
}

/// Decodes the percent signs of a part of a path or a query.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut remaining = text.bytes();
    while let Some(byte) = remaining.next() {
        if byte == b'%' {
            let digits = [remaining.next().unwrap(), remaining.next().unwrap()];
            let digits = std::str::from_utf8(&digits).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn server_answers_records_and_fails_on_demand() {
    let server = WebServer::start(|request| {
        let name = request.parameter("name").unwrap_or("nobody");
        WebResponse::json(201, &serde_json::json!({"name": name, "body": request.body})).with_header("x", "y")
    });
    let send = |text: &str| {
        let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    let request = "POST /a%2Fb/c?name=%C3%A9+f&z HTTP/1.1\r\nX-Key: k\r\nContent-Length: 3\r\n\r\n[1]";
    let response = send(request);
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
    assert!(response.contains("\r\nx: y\r\n"), "{response}");
    assert!(
        response.ends_with("\r\n\r\n{\"name\":\"é f\",\"body\":[1]}"),
        "{response}"
    );
    let seen = server.take_requests().remove(0);
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/a%2Fb/c"));
    assert_eq!(
        (seen.segments(), seen.text),
        (vec!["a/b".into(), "c".into()], "[1]".to_owned())
    );
    server.fail_after(
        1,
        Fault::Respond(WebResponse::json(429, &Value::Null).with_header("Retry-After", "7")),
    );
    assert!(send(request).starts_with("HTTP/1.1 201 "));
    assert!(send(request).contains("\r\nRetry-After: 7\r\n"));
    for fault in [Fault::Close, Fault::CloseAfterwards] {
        server.fail_after(0, fault);
        assert_eq!(send(request), "");
    }
    server.fail_after(0, Fault::Truncate);
    assert!(send(request).ends_with('}'));
    server.recover();
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[2\r\n1\r\n]\r\n0\r\n\r\n";
    assert!(send(chunked).contains("\"body\":[2]"));
    assert_eq!(server.take_requests().len(), 6);
}
