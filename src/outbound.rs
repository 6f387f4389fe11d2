//! HTTP to servers that people name: webhooks of notifiers, collectors of traces.

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::Arc;

use reqwest::Url;

/// Whether it is this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// A client that follows no redirect: that would carry what is told to an address that nobody named.
///
/// # Errors
/// When there is none, in words.
pub fn client(url: &Url) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("vik/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    let provider = rustls::crypto::ring::default_provider();
    if url.scheme() == "https" {
        // Fails only when there is one already.
        let _ = provider.install_default();
    } else {
        // The certificates of the system are not even read, where there may be none.
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        builder = builder.tls_backend_preconfigured(config);
    }
    builder.build().map_err(|error| why(&error))
}

/// Why no answer came, in words that help.
pub fn why(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    // The outer ones only say that it failed.
    let cause = causes.pop().unwrap_or_else(|| error.to_string());
    if cause.contains("invalid peer certificate") {
        return format!("its certificate is not trusted: {cause}");
    }
    if error.is_timeout() {
        return "no answer came in time".to_owned();
    }
    if error.is_connect() {
        return format!("it cannot be reached: {cause}");
    }
    format!("the connection broke before an answer came: {cause}")
}
