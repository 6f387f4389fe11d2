//! HTTP clients for servers that users configure: webhooks of notifiers, trace collectors and
//! trackers.

#![forbid(unsafe_code)]

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::Arc;

use reqwest::Url;

/// Returns whether the URL points to this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns a client that follows no redirects: a redirect would send data to an address that the
/// user did not configure.
///
/// # Errors
/// If the client cannot be built.
pub fn client(url: &Url) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("vik/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    let provider = rustls::crypto::ring::default_provider();
    if url.scheme() == "https" {
        // Fails only if a provider is already installed.
        let _ = provider.install_default();
    } else {
        // Without TLS, the certificates of the system are not read: they may be missing.
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        builder = builder.tls_backend_preconfigured(config);
    }
    builder.build().map_err(|error| failure_message(&error))
}

/// Returns a message that explains why a request failed.
pub fn failure_message(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    // The outer causes only report that the request failed.
    let cause = causes.pop().unwrap_or_else(|| error.to_string());
    if cause.contains("invalid peer certificate") {
        return format!("its certificate is not trusted: {cause}");
    }
    if error.is_timeout() {
        return "no response in time".to_owned();
    }
    if error.is_connect() {
        return format!("cannot connect: {cause}");
    }
    format!("the connection broke before a response arrived: {cause}")
}
