//! A tiny HTTP server that keeps the requests that it receives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

#[derive(Clone, Debug)]
pub struct Request {
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        &found.unwrap_or_else(|| panic!("no {name}: {:?}", self.headers)).1
    }

    /// Returns the expected value of `x-vik-signature`.
    pub fn signature(&self, secret: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(self.header("x-vik-timestamp").as_bytes());
        mac.update(b".");
        mac.update(&self.body);
        let bytes = mac.finalize().into_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256={hex}")
    }
}

/// The server runs as long as the test.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    answers: Arc<AtomicBool>,
}

impl Server {
    /// Starts a server that answers with these statuses, and with the last one from then on.
    pub fn start(statuses: &[u16]) -> Self {
        Self::with(statuses, "", "")
    }

    /// Starts a server that answers with these statuses and this body.
    pub fn echoing(statuses: &[u16], body: &str) -> Self {
        Self::with(statuses, "", body)
    }

    pub fn redirecting(to: &str) -> Self {
        Self::with(&[307], &format!("location: {to}\r\n"), "")
    }

    /// Starts a server that accepts requests and does not answer until `answer` is called.
    pub fn silent() -> Self {
        let server = Self::with(&[200], "", "");
        server.answers.store(false, Ordering::SeqCst);
        server
    }

    pub fn answer(&self) {
        self.answers.store(true, Ordering::SeqCst);
    }

    fn with(statuses: &[u16], header: &str, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let answers = Arc::new(AtomicBool::new(true));
        let (kept, answering) = (Arc::clone(&requests), Arc::clone(&answers));
        let (statuses, header, body) = (statuses.to_vec(), header.to_owned(), body.to_owned());
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&stream) else { continue };
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(request);
                    kept.len()
                };
                if !answering.load(Ordering::SeqCst) {
                    silent.push(stream);
                    continue;
                }
                let status = statuses[(number - 1).min(statuses.len() - 1)];
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{header}\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self {
            address,
            requests,
            answers,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut headers = Vec::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")?
        .1
        .parse()
        .ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { headers, body })
}
