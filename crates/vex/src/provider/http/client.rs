//! One HTTP client for one provider. It sets up only what the address needs.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Method, RequestBuilder, Url};
use serde::{Deserialize, Serialize};

use super::fault::{Failure, Fault};
use crate::net::{base_client, without_roots};
use crate::provider::ProviderError;
use crate::provider::catalog::Endpoint;

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Deadlines {
    /// The time limit for a connection, in milliseconds.
    pub connect_ms: u64,
    /// The time limit for the first byte of an answer, in milliseconds; a local server reads the whole prompt first.
    pub first_byte_ms: u64,
    /// The longest time between two bytes of an answer, in milliseconds.
    pub stall_ms: u64,
    /// The longest time with only keep-alive messages, in milliseconds.
    pub silence_ms: u64,
    /// The time limit for an answer including all tries and waits, in milliseconds.
    pub total_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect_ms: 20_000,
            first_byte_ms: 600_000,
            stall_ms: 300_000,
            silence_ms: 600_000,
            total_ms: 3_600_000,
        }
    }
}

/// The maximum size of the body of an error or a list, in bytes.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// The time limit for the body of an error or a list.
const BODY_TIME: Duration = Duration::from_secs(20);

/// A client for one provider.
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Endpoint,
    headers: HeaderMap,
}

impl Client {
    /// Creates the client. `ca_file` holds certificates to trust in addition to those of the
    /// system.
    pub(super) fn new(
        endpoint: Endpoint,
        connect: Duration,
        ca_file: Option<&Path>,
    ) -> Result<Self, ProviderError> {
        let mut builder = base_client().connect_timeout(connect).tcp_nodelay(true);
        if endpoint.is_local() {
            builder = builder.no_proxy();
        }
        builder = match tls(&endpoint, ca_file)? {
            Tls::None => builder.tls_backend_preconfigured(without_roots()),
            Tls::System => builder,
            Tls::With(certificates) => builder.tls_certs_merge(certificates),
        };
        let http = builder.build().map_err(|error| {
            ProviderError::Config(format!(
                "cannot set up a client for {}: {}",
                endpoint.base_url,
                causes(&error)
            ))
        })?;
        let headers = headers(&endpoint)?;
        Ok(Self {
            http,
            endpoint,
            headers,
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Builds a request to one of the provider's paths.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let address = self.endpoint.address(path);
        let mut url = match Url::parse(&address) {
            Ok(url) => url,
            // reqwest reports the error when the request is sent.
            Err(_) => return self.http.request(method, address),
        };
        if !self.endpoint.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.endpoint.query);
        }
        self.http.request(method, url).headers(self.headers.clone())
    }

    /// Sends a copy of a request.
    pub(super) async fn send(&self, request: &reqwest::Request) -> Result<reqwest::Response, Failure> {
        let no_copy = || Failure::new(Fault::Request, "cannot send the request again");
        let copy = request.try_clone().ok_or_else(no_copy)?;
        self.http
            .execute(copy)
            .await
            .map_err(|error| self.not_sent(&error))
    }

    /// Reads a body that is not a stream, up to its limits.
    pub(super) async fn body(response: &mut reqwest::Response) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = MAX_BODY_BYTES.saturating_sub(body.len());
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if room <= chunk.len() {
                    break;
                }
            }
        };
        // The part received before the time limit is used.
        let _ = tokio::time::timeout(BODY_TIME, read).await;
        body
    }

    /// Masks the key in a text.
    pub(super) fn masked(&self, text: &str) -> String {
        match &self.endpoint.key {
            Some(key) if !key.expose().is_empty() => text.replace(key.expose(), "[REDACTED:key]"),
            _ => text.to_owned(),
        }
    }

    /// Explains why a request could not be sent.
    pub(super) fn not_sent(&self, error: &reqwest::Error) -> Failure {
        let at = &self.endpoint.base_url;
        let name = &self.endpoint.name;
        let cause = self.masked(&causes(error));
        if error.is_builder() {
            return Failure::new(Fault::Address, format!("cannot send a request to {at}: {cause}"));
        }
        if io_kind(error) == Some(std::io::ErrorKind::ConnectionRefused) {
            return Failure::new(
                Fault::NothingListens,
                format!("no server is listening at {at}: start the server of {name}, or set --base-url"),
            );
        }
        if error.is_connect() && cause.contains("invalid peer certificate") {
            return Failure::new(
                Fault::Address,
                format!(
                    "the certificate of {at} is not trusted: {cause}; set VEX_CA_FILE=FILE to trust the certificates in a file"
                ),
            );
        }
        if error.is_dns() {
            return Failure::new(
                Fault::Network,
                format!("cannot resolve the host of {at}: {cause}"),
            );
        }
        if error.is_connect() {
            return Failure::new(Fault::Network, format!("cannot reach {at}: {cause}"));
        }
        Failure::new(
            Fault::Network,
            format!("the connection to {at} broke before a response arrived: {cause}"),
        )
    }
}

enum Tls {
    None,
    System,
    With(Vec<Certificate>),
}

/// Returns the required TLS setup: none for http, so that not even the certificates of the system
/// are read.
fn tls(endpoint: &Endpoint, ca_file: Option<&Path>) -> Result<Tls, ProviderError> {
    if !endpoint.base_url.starts_with("https:") && (endpoint.is_local() || !has_https_proxy()) {
        return Ok(Tls::None);
    }
    // Fails only if one is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Some(path) = ca_file else {
        return Ok(Tls::System);
    };
    let unreadable = |why: String| {
        ProviderError::Config(format!(
            "cannot read the certificates in {}: {why}",
            path.display()
        ))
    };
    let pem = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| unreadable(causes(&error)))?;
    if certificates.is_empty() {
        return Err(unreadable("no certificate in PEM format".to_owned()));
    }
    Ok(Tls::With(certificates))
}

fn has_https_proxy() -> bool {
    ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .any(|proxy| proxy.starts_with("https:"))
}

/// Returns the headers of each request. Those of the settings are kept out of every log.
fn headers(endpoint: &Endpoint) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    for (name, value) in endpoint.protocol.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let mut set = |name: &str, value: &str, description: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        let Some((name, mut value)) = name.zip(HeaderValue::from_str(value).ok()) else {
            return Err(ProviderError::Config(format!(
                "{description} is not a valid HTTP header"
            )));
        };
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    };
    for (name, value) in &endpoint.headers {
        set(
            name,
            value,
            &format!("providers.{}.headers.{name}", endpoint.name),
        )?;
    }
    if let Some(key) = &endpoint.key {
        let (own, value) = endpoint.protocol.auth(key.expose());
        let description = match &endpoint.key_env {
            Some(variable) => format!("the value of {variable}"),
            None => "the API key".to_owned(),
        };
        match &endpoint.key_header {
            Some(header) => set(header, key.expose(), &description)?,
            None => set(own, &value, &description)?,
        }
    }
    Ok(headers)
}

/// Returns an error with its causes. The address, which may be long, is reported separately.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !texts.iter().any(|earlier| earlier.contains(&text)) {
            texts.push(text);
        }
        source = cause.source();
    }
    match texts.last() {
        // The outer ones only report that it failed.
        Some(innermost) => innermost.clone(),
        None => error.to_string(),
    }
}

fn io_kind(error: &reqwest::Error) -> Option<std::io::ErrorKind> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        source = cause.source();
    }
    None
}
