//! HTTP clients before anything is known about a provider, and network work that an interrupt ends.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::interrupt::Interrupt;

/// Returns a client that identifies itself and follows no redirect: that would send a key, or a
/// request, to an unchecked address.
pub(crate) fn base_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("vex/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
}

/// Returns a client for addresses that do not belong to a provider. The certificates of the system
/// are read only if `secure` is set.
pub(crate) fn plain_client(secure: bool) -> reqwest::ClientBuilder {
    if secure {
        // Fails only if one is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        base_client()
    } else {
        base_client().tls_backend_preconfigured(without_roots())
    }
}

/// Returns a configuration that trusts no certificate, for connections without TLS.
pub(crate) fn without_roots() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap_or_else(|_| rustls::ClientConfig::builder());
    builder
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// Runs a future to its end. Returns `None` if the interrupt comes first.
pub(crate) fn until_interrupted<T>(
    runtime: &Runtime,
    interrupt: &Interrupt,
    work: impl Future<Output = T>,
) -> Option<T> {
    runtime.block_on(unless_interrupted(interrupt, work))
}

/// Waits for a future. Returns `None` if the interrupt comes first.
pub(crate) async fn unless_interrupted<T>(interrupt: &Interrupt, work: impl Future<Output = T>) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    let _listening = interrupt.listen(move || {
        // If the receiver was dropped, the run is over.
        let _ = sender.send(());
    });
    let interrupted = async {
        // A dropped sender is not an interrupt.
        if receiver.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = interrupted => None,
        done = work => Some(done),
    }
}
