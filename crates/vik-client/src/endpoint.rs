//! The address of the daemon, and the forms of addresses.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;
use hyper::header::HeaderValue;

use crate::error::ClientError;

/// The address of the daemon.
///
/// # Examples
///
/// ```
/// use vik_client::Endpoint;
///
/// let endpoint = Endpoint::Tcp {
///     url: "http://127.0.0.1:8080".to_owned(),
///     token: "a secret".to_owned(),
/// };
/// let text = format!("{endpoint:?}");
/// assert!(text.contains("127.0.0.1") && !text.contains("a secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Its Unix socket; the mode of the file decides who may open it.
    Unix(PathBuf),
    /// The API over TCP.
    Tcp {
        /// As in `http://127.0.0.1:8080`; the default scheme is `http`. A path is put before
        /// `/api/v1`.
        url: String,
        /// The API token of the daemon, or the token of a sign-in.
        token: String,
    },
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => f.debug_tuple("Unix").field(path).finish(),
            // The token is a secret.
            Self::Tcp { url, .. } => f.debug_struct("Tcp").field("url", url).finish_non_exhaustive(),
        }
    }
}

/// An endpoint in the parts that a connection and a request need.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) transport: Transport,
    /// The address, for display.
    pub(crate) name: String,
    pub(crate) host: HeaderValue,
    pub(crate) token: Option<HeaderValue>,
    /// The path before `/api/v1`.
    pub(crate) prefix: String,
}

#[derive(Clone)]
pub(crate) enum Transport {
    Unix(PathBuf),
    Tcp(String, u16),
}

impl Target {
    pub(crate) fn of(endpoint: &Endpoint) -> Result<Self, ClientError> {
        match endpoint {
            Endpoint::Unix(path) => Ok(Self {
                transport: Transport::Unix(path.clone()),
                name: path.display().to_string(),
                host: HeaderValue::from_static("localhost"),
                token: None,
                prefix: String::new(),
            }),
            Endpoint::Tcp { url, token } => Self::tcp(url, token),
        }
    }

    fn tcp(url: &str, token: &str) -> Result<Self, ClientError> {
        let wrong = |why| ClientError::Address {
            url: url.to_owned(),
            why,
        };
        let full_url = match url.contains("://") {
            true => url.to_owned(),
            false => format!("http://{url}"),
        };
        let uri: Uri = full_url.parse().map_err(|_| wrong("it is not a valid URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("TLS is not supported; forward the port with ssh instead")),
            _ => return Err(wrong("it does not start with `http://`")),
        }
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a user or password is not supported"));
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("it is not a valid URL"))?;
        let mut token = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| wrong("the token contains invalid characters"))?;
        token.set_sensitive(true);
        // `[::1]` has brackets in a URL, and none for the resolver.
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            transport: Transport::Tcp(name.to_owned(), authority.port_u16().unwrap_or(80)),
            name: authority.to_string(),
            host,
            token: Some(token),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// Escapes a part of a path or query: everything but letters, digits, `-`, `_` and `.`.
pub(crate) fn encode(text: &str) -> String {
    let dots_only = text.bytes().all(|b| b == b'.');
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => out.push(char::from(byte)),
            // `..` would be the parent folder.
            b'.' if !dots_only => out.push('.'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
