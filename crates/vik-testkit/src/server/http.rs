//! The part of HTTP/1.1 that model clients need: one request per connection, responses as a whole
//! or in chunks.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

const MAX_LINE: u64 = 64 * 1024;
const MAX_BODY: u64 = 256 * 1024 * 1024;

/// Reads one request; `None` if the client disconnects before sending one.
pub(crate) fn read(stream: &TcpStream) -> io::Result<Option<HttpRequest>> {
    let mut reader = BufReader::new(stream);
    let line = read_line(&mut reader)?;
    let mut tokens = line.split_whitespace();
    let (Some(method), Some(target)) = (tokens.next(), tokens.next()) else {
        return Ok(None);
    };
    let mut headers = BTreeMap::new();
    loop {
        let line = read_line(&mut reader)?;
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers
        .get("expect")
        .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    {
        (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let chunked = headers
        .get("transfer-encoding")
        .is_some_and(|value| value.contains("chunked"));
    let length = headers
        .get("content-length")
        .and_then(|value| value.parse().ok())
        .unwrap_or(0);
    let body = if chunked {
        read_chunks(&mut reader)?
    } else {
        read_exactly(&mut reader, length)?
    };
    let path = target.split('?').next().unwrap_or(target).to_owned();
    Ok(Some(HttpRequest {
        method: method.to_owned(),
        path,
        headers,
        body,
    }))
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(MAX_LINE).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_exactly(reader: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    if length > MAX_BODY {
        return Err(io::Error::other("the body is too long"));
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| io::Error::other("a chunk without a size"))?;
        body.extend(read_exactly(reader, size)?);
        read_line(reader)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Writes a whole response.
pub(crate) fn respond(
    mut stream: &TcpStream,
    status: u16,
    headers: &BTreeMap<String, String>,
    body: &[u8],
    with_body: bool,
) -> io::Result<()> {
    let mut head = head(status, headers);
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(body)?;
    }
    stream.flush()
}

/// A chunked response. Without [`Chunked::finish`] the client notices the truncation.
pub(crate) struct Chunked<'a> {
    stream: &'a TcpStream,
    /// The size of a chunk, if it differs from that of the text.
    size: Option<usize>,
    /// The remaining bytes that may be sent.
    left: usize,
}

impl<'a> Chunked<'a> {
    pub(crate) fn start(
        mut stream: &'a TcpStream,
        headers: &BTreeMap<String, String>,
        size: Option<usize>,
        most: Option<usize>,
    ) -> io::Result<Self> {
        let mut head = head(200, headers);
        head.push_str("transfer-encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        Ok(Self {
            stream,
            size,
            left: most.unwrap_or(usize::MAX),
        })
    }

    /// Sends a text within the byte limit; returns `false` if not all of it was sent.
    pub(crate) fn send(&mut self, text: &str) -> io::Result<bool> {
        let bytes = text.as_bytes();
        let bytes = &bytes[..bytes.len().min(self.left)];
        self.left -= bytes.len();
        for piece in bytes.chunks(self.size.unwrap_or(usize::MAX).max(1)) {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            let mut stream = self.stream;
            stream.write_all(&chunk)?;
            stream.flush()?;
        }
        Ok(bytes.len() == text.len())
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        let mut stream = self.stream;
        stream.write_all(b"0\r\n\r\n")?;
        stream.flush()
    }
}

fn head(status: u16, headers: &BTreeMap<String, String>) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\nconnection: close\r\n", reason(status));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Status",
    }
}
