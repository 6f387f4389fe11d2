//! An HTTP client that sends exactly what a test asks for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// The timeout of a response, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct HttpClient {
    address: Address,
    headers: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(String),
    Unix(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    /// Returns the body as JSON.
    ///
    /// # Panics
    ///
    /// Panics if it is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Returns the first header of this lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the reply if it has this status.
    ///
    /// # Panics
    ///
    /// Panics if it has another one.
    #[must_use]
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

impl HttpClient {
    /// Creates a client of a server on TCP (`127.0.0.1:8080`).
    #[must_use]
    pub fn tcp(address: &str) -> Self {
        Self {
            address: Address::Tcp(address.to_owned()),
            headers: vec![("Host".to_owned(), address.to_owned())],
        }
    }

    /// Creates a client of a server on a Unix socket.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self {
            address: Address::Unix(path.into()),
            headers: vec![("Host".to_owned(), "localhost".to_owned())],
        }
    }

    /// Adds or replaces a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a `GET` request.
    #[must_use]
    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        self.request("GET", path, None)
    }

    /// Sends a `POST` request with JSON.
    #[must_use]
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        let client = self.clone().with_header("Content-Type", "application/json");
        client.request("POST", path, Some(&body.to_string()))
    }

    /// Sends any request and reads the whole response.
    ///
    /// # Panics
    ///
    /// Panics without a valid response.
    #[must_use]
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, body: Option<&str>) -> Reply {
        let closing = self.clone().with_header("Connection", "close");
        let mut stream = closing.open(method, path, body).expect("a server that answers");
        let (status, headers) = read_head(&mut stream).expect("the head of an answer");
        let chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let mut bytes = Vec::new();
        if chunked {
            while let Some(chunk) = read_chunk(&mut stream).expect("a chunk") {
                bytes.extend(chunk);
            }
        } else {
            stream.read_to_end(&mut bytes).expect("a body");
        }
        Reply {
            status,
            headers,
            body: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Starts to read server-sent events.
    ///
    /// # Panics
    ///
    /// Panics if the request is refused.
    #[must_use]
    #[track_caller]
    pub fn events(&self, path: &str) -> EventStream {
        let mut stream = self.open("GET", path, None).expect("a server that answers");
        let (status, _) = read_head(&mut stream).expect("the head of an answer");
        assert_eq!(status, 200);
        EventStream {
            stream,
            text: String::new(),
        }
    }

    fn open(&self, method: &str, path: &str, body: Option<&str>) -> io::Result<BufReader<Box<dyn Duplex>>> {
        let mut stream: Box<dyn Duplex> = match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
        };
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body.unwrap_or(""));
        // A server that refuses before it has read everything closes early: its response counts.
        let _ = stream.write_all(text.as_bytes());
        Ok(BufReader::new(stream))
    }
}

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// The events of a stream.
pub struct EventStream {
    stream: BufReader<Box<dyn Duplex>>,
    text: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerEvent {
    pub id: Option<String>,
    pub event: String,
    pub data: Value,
}

impl Iterator for EventStream {
    type Item = ServerEvent;

    /// Returns the next event; `None` when the server has closed the connection.
    fn next(&mut self) -> Option<ServerEvent> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let mut event = ServerEvent::default();
                for line in block.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => event.id = Some(id.to_owned()),
                        Some(("event", kind)) => kind.clone_into(&mut event.event),
                        Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                        _ => {}
                    }
                }
                if !event.event.is_empty() {
                    return Some(event);
                }
            }
            match read_chunk(&mut self.stream) {
                Ok(Some(bytes)) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                _ => return None,
            }
        }
    }
}

type Headers = Vec<(String, String)>;

fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, Headers)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status line: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => return Ok((status, headers)),
        }
    }
}

fn read_chunk(stream: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let size = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
    let mut bytes = vec![0; size + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(size);
    Ok((size > 0).then_some(bytes))
}
