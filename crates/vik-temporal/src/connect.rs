//! The connection to a server: its settings, attempts until it answers, and what failed.

use std::fmt;
use std::time::Duration;

use rustls::CertificateError;
use temporalio_client::errors::ClientConnectError;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Status};
use temporalio_client::{
    Client, ClientOptions, ClientTlsOptions, Connection, ConnectionOptions, TlsOptions, Url,
};
use temporalio_common::data_converters::{DataConverter, DefaultFailureConverter, PayloadConverter};
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest;
use tokio::time::Instant;

use crate::codec::Codec;

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A secret, which `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The server, and how this process identifies itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `host:port`, without a scheme.
    pub address: String,
    pub namespace: String,
    /// The name of this process in the histories and the user interface of the server.
    pub identity: String,
    /// Without it, the connection is not encrypted, except if there is an API key.
    pub tls: Option<Tls>,
    pub api_key: Option<Secret<String>>,
    pub codec: Codec,
}

/// Certificates, as the contents of PEM files.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Without it, the certificates of the system are trusted.
    pub server_ca: Option<Vec<u8>>,
    /// The name in the certificate of the server, where it is not that of the address.
    pub server_name: Option<String>,
    pub client: Option<ClientCertificate>,
}

#[derive(Clone, Debug)]
pub struct ClientCertificate {
    pub certificate: Vec<u8>,
    pub key: Secret<Vec<u8>>,
}

/// There is no connection to the server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the address `{0}` of the Temporal server is invalid: write `host:port`")]
    InvalidAddress(String),
    #[error("the settings of the connection to {address} are invalid: {reason}")]
    InvalidSettings { address: String, reason: String },
    #[error("cannot reach the Temporal server at {address}: {reason}")]
    Unreachable { address: String, reason: String },
    #[error(
        "the Temporal server at {address} refuses this client: {reason} (check `engine.temporal.api_key`, and the \
         permissions of the client)"
    )]
    Refused { address: String, reason: String },
    #[error("no encrypted connection to the Temporal server at {address}: {problem}: {reason}")]
    Tls {
        address: String,
        problem: &'static str,
        reason: String,
    },
    #[error("the Temporal server at {address} has no namespace `{namespace}`")]
    MissingNamespace { address: String, namespace: String },
}

impl ConnectError {
    /// Returns whether a later attempt may succeed without a change of the settings.
    fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// Connects, and checks that the namespace exists. While the server does not answer, it is tried
/// again until `patience` has passed.
///
/// # Errors
///
/// Returns the last error. An error that another attempt cannot change is returned at once.
pub async fn connect(settings: &Settings, patience: Duration) -> Result<Client, ConnectError> {
    let deadline = Instant::now().checked_add(patience);
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match connect_once(settings).await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        if !error.is_temporary() || deadline.is_some_and(|deadline| Instant::now() + pause > deadline) {
            return Err(error);
        }
        tracing::warn!(%error, "no connection, trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Returns the converter of clients, workers and replays. Messages of failures go through the codec
/// too.
pub fn data_converter(codec: Codec) -> DataConverter {
    DataConverter::new(
        PayloadConverter::default(),
        DefaultFailureConverter::new(true),
        codec,
    )
}

async fn connect_once(settings: &Settings) -> Result<Client, ConnectError> {
    let address = &settings.address;
    let connection = Connection::connect(connection_options(settings)?)
        .await
        .map_err(|error| connect_error(settings, error))?;
    let options = ClientOptions::new(&settings.namespace)
        .data_converter(data_converter(settings.codec.clone()))
        .build();
    let mut client = Client::new(connection, options).map_err(|error| ConnectError::InvalidSettings {
        address: address.clone(),
        reason: error.to_string(),
    })?;
    let request = DescribeNamespaceRequest {
        namespace: settings.namespace.clone(),
        ..DescribeNamespaceRequest::default()
    };
    match WorkflowService::describe_namespace(&mut client, request.into_request()).await {
        Ok(_) => Ok(client),
        Err(status) if status.code() == Code::NotFound => Err(ConnectError::MissingNamespace {
            address: address.clone(),
            namespace: settings.namespace.clone(),
        }),
        Err(status) => Err(status_error(address, &status)),
    }
}

fn connection_options(settings: &Settings) -> Result<ConnectionOptions, ConnectError> {
    let target = target(&settings.address, is_encrypted(settings))?;
    Ok(ConnectionOptions::new(target)
        .identity(&settings.identity)
        .maybe_tls_options(settings.tls.as_ref().map(tls_options))
        .maybe_api_key(settings.api_key.as_ref().map(|key| key.0.clone()))
        .connect_timeout(CONNECT_TIMEOUT)
        // It connects lazily, and would hide why a connection fails.
        .dns_load_balancing(None)
        .build())
}

fn is_encrypted(settings: &Settings) -> bool {
    settings.tls.is_some() || settings.api_key.is_some()
}

/// Returns the address as a URL. Only a host and a port are accepted, so that an address cannot
/// change the scheme, or have credentials that appear in messages.
fn target(address: &str, is_encrypted: bool) -> Result<Url, ConnectError> {
    let invalid = || ConnectError::InvalidAddress(address.chars().take(200).collect());
    let scheme = if is_encrypted { "https" } else { "http" };
    let url = Url::parse(&format!("{scheme}://{address}")).map_err(|_| invalid())?;
    let (_, port) = address.rsplit_once(':').ok_or_else(invalid)?;
    let is_plain = !address.contains(['/', '@', '?', '#', '\\'])
        && url.host_str().is_some_and(|host| !host.is_empty())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_plain { Ok(url) } else { Err(invalid()) }
}

fn tls_options(tls: &Tls) -> TlsOptions {
    let client = tls.client.as_ref().map(|client| {
        ClientTlsOptions::builder()
            .client_cert(client.certificate.clone())
            .client_private_key(client.key.0.clone())
            .build()
    });
    TlsOptions::builder()
        .maybe_server_root_ca_cert(tls.server_ca.clone())
        .maybe_domain(tls.server_name.clone())
        .maybe_client_tls_options(client)
        .build()
}

fn connect_error(settings: &Settings, error: ClientConnectError) -> ConnectError {
    let address = &settings.address;
    let cause: &(dyn std::error::Error + 'static) = match &error {
        ClientConnectError::SystemInfoCallError(status) => status,
        error => error,
    };
    if let Some((problem, reason)) = tls_problem(cause) {
        return ConnectError::Tls {
            address: address.clone(),
            problem,
            reason,
        };
    }
    match error {
        // A server refuses the certificate of a client after the handshake, and only closes the
        // connection.
        ClientConnectError::SystemInfoCallError(status)
            if is_encrypted(settings) && std::error::Error::source(&status).is_some() =>
        {
            let has_certificate = settings.tls.as_ref().is_some_and(|tls| tls.client.is_some());
            let hint = if has_certificate {
                "if it requires a certificate of the client, check `engine.temporal.tls.cert_file` and `key_file`, \
                 and whether the certificate has expired"
            } else {
                "it may require a certificate of the client, and the workflow has none: set \
                 `engine.temporal.tls.cert_file` and `key_file`"
            };
            ConnectError::Unreachable {
                address: address.clone(),
                reason: format!("it closes the connection: {hint} ({})", causes(&status)),
            }
        }
        ClientConnectError::SystemInfoCallError(status) => status_error(address, &status),
        ClientConnectError::TonicTransportError(error) => ConnectError::Unreachable {
            address: address.clone(),
            reason: causes(&error),
        },
        error @ ClientConnectError::DnsResolutionError { .. } => ConnectError::Unreachable {
            address: address.clone(),
            reason: causes(&error),
        },
        error => ConnectError::InvalidSettings {
            address: address.clone(),
            reason: causes(&error),
        },
    }
}

fn status_error(address: &str, status: &Status) -> ConnectError {
    let address = address.to_owned();
    let reason = status.message().to_owned();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => ConnectError::Refused { address, reason },
        Code::InvalidArgument | Code::Unimplemented => ConnectError::InvalidSettings { address, reason },
        code => ConnectError::Unreachable {
            address,
            reason: if reason.is_empty() {
                code.to_string()
            } else {
                reason
            },
        },
    }
}

/// Returns what is wrong with the certificates, with the key of the workflow to check, and the reason.
fn tls_problem(error: &(dyn std::error::Error + 'static)) -> Option<(&'static str, String)> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut found = causes.filter_map(|cause| {
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        inner.map_or_else(
            || cause.downcast_ref(),
            |inner| inner.downcast_ref::<rustls::Error>(),
        )
    });
    let error = found.next()?;
    let problem = match error {
        rustls::Error::InvalidCertificate(cause) => match cause {
            CertificateError::UnknownIssuer => {
                "the certificate of the server is of another authority: check `engine.temporal.tls.ca_file`"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the certificate of the server has another name: check `engine.temporal.tls.server_name`"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the certificate of the server has expired"
            }
            _ => "the certificate of the server is not valid",
        },
        rustls::Error::AlertReceived(_) => {
            "the server refuses this client: check `engine.temporal.tls.cert_file` and `key_file`"
        }
        _ => "the server uses no TLS, or another kind of it: check `engine.temporal.tls`",
    };
    Some((problem, error.to_string()))
}

/// Returns the last cause of an error, which names the reason, after the first, which names the
/// step.
fn causes(error: &dyn std::error::Error) -> String {
    let last = std::iter::successors(error.source(), |error| error.source()).last();
    match last {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(address: &str) -> Settings {
        Settings {
            address: address.to_owned(),
            namespace: "default".to_owned(),
            identity: "test".to_owned(),
            tls: Some(Tls {
                client: Some(ClientCertificate {
                    certificate: b"cert".to_vec(),
                    key: Secret(b"private".to_vec()),
                }),
                ..Tls::default()
            }),
            api_key: Some(Secret("api-key".to_owned())),
            codec: Codec::default(),
        }
    }

    #[test]
    fn settings_hide_secrets() {
        let text = format!("{:?}", settings("h:1"));
        assert!(
            text.contains("key: ***") && text.contains("api_key: Some(***)"),
            "{text}"
        );
        assert!(!text.contains("api-key"), "{text}");
        assert!(!text.contains(&format!("{:?}", b"private")), "{text}");
    }

    #[test]
    fn address_is_a_host_and_a_port() {
        for address in ["temporal:7233", "127.0.0.1:1", "[::1]:7233", "a.b.example:443"] {
            assert_eq!(target(address, true).unwrap().scheme(), "https", "{address}");
            assert_eq!(target(address, false).unwrap().scheme(), "http", "{address}");
        }
        for address in [
            "",
            "host",
            ":1",
            "host:",
            "host:0",
            "host:99999",
            "http://host:1",
            "u:p@host:1",
            "host:1/x",
            "host:1?x:1",
            "::1",
        ] {
            assert!(target(address, false).is_err(), "{address}");
        }
    }

    #[tokio::test]
    async fn connect_names_an_address_that_does_not_answer() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = closed.local_addr().unwrap().to_string();
        drop(closed);
        let settings = Settings {
            tls: None,
            api_key: None,
            ..settings(&address)
        };
        let error = connect(&settings, Duration::ZERO).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("cannot reach the Temporal server at {address}")),
            "{text}"
        );
        assert!(text.contains("refused"), "{text}");
    }
}
