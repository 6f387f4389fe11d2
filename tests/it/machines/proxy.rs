//! A proxy with TLS in front of the server, which can ask for a client certificate and an API key.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use http_body_util::{Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::support::eventually;

/// The name in the certificate of the proxy.
pub const SERVER_NAME: &str = "temporal.test";

/// Certificates in a folder, made by `openssl`.
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Creates the authority `ca`; `None` without `openssl`.
    pub fn new(folder: PathBuf) -> Option<Self> {
        Command::new("openssl").arg("version").output().ok()?;
        std::fs::create_dir_all(&folder).unwrap();
        let certificates = Self { folder };
        certificates.authority("ca");
        Some(certificates)
    }

    pub fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -keyout {name}.key -out {name}.pem"
        ));
    }

    /// Creates `NAME.pem` and `NAME.key` for this subject. With 0 days, the certificate has expired.
    pub fn issue(&self, name: &str, subject: &str, days: u32) {
        std::fs::write(
            self.path(&format!("{name}.ext")),
            format!("subjectAltName=DNS:{subject}\nextendedKeyUsage=serverAuth,clientAuth\n"),
        )
        .unwrap();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={subject} \
             -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} \
             -extfile {name}.ext -out {name}.pem"
        ));
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let issued = now();
        if days == 0 {
            eventually("the certificate has expired", || now() > issued);
        }
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn openssl(&self, args: &str) {
        let done = Command::new("openssl")
            .args(args.split_whitespace())
            .current_dir(&self.folder)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{args}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

/// What a proxy presents, and asks for.
pub struct Access {
    /// The certificate of the proxy: `NAME.pem` and `NAME.key`.
    pub certificate: &'static str,
    /// Whether clients need a certificate of `ca`.
    pub client_certificates: bool,
    /// Clients need one of these keys, if there are any.
    pub api_keys: Vec<&'static str>,
}

type ApiKeys = Arc<Mutex<Vec<&'static str>>>;

/// It ends when it is dropped.
pub struct Proxy {
    pub port: u16,
    api_keys: ApiKeys,
    _runtime: Runtime,
}

impl Proxy {
    pub fn start(server_port: u16, certificates: &Certificates, access: Access) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(tls(certificates, &access)));
        let api_keys: ApiKeys = Arc::new(Mutex::new(access.api_keys));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let keys = Arc::clone(&api_keys);
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(connection(stream, tls.clone(), server_port, Arc::clone(&keys)));
            }
        });
        Self {
            port,
            api_keys,
            _runtime: runtime,
        }
    }

    /// From now on, clients need one of these keys.
    pub fn accept(&self, api_keys: &[&'static str]) {
        *self.api_keys.lock().unwrap() = api_keys.to_vec();
    }
}

fn tls(certificates: &Certificates, access: &Access) -> ServerConfig {
    let read = |file: &Path| -> Vec<CertificateDer<'static>> {
        let found = CertificateDer::pem_file_iter(file).unwrap();
        found.map(|certificate| certificate.unwrap()).collect()
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if access.client_certificates {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(read(&certificates.path("ca.pem")));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let name = access.certificate;
    let key = PrivateKeyDer::from_pem_file(certificates.path(&format!("{name}.key"))).unwrap();
    let chain = read(&certificates.path(&format!("{name}.pem")));
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, server_port: u16, api_keys: ApiKeys) -> Option<()> {
    let stream = tls.accept(stream).await.ok()?;
    let server = TcpStream::connect(("127.0.0.1", server_port)).await.ok()?;
    let io = TokioIo::new(server);
    let (server, running) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .ok()?;
    tokio::spawn(running);
    let service = service_fn(move |request| {
        let keys = api_keys.lock().unwrap().clone();
        forward(server.clone(), request, keys)
    });
    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.serve_connection(TokioIo::new(stream), service).await.ok()
}

async fn forward(
    mut server: SendRequest<Incoming>,
    mut request: Request<Incoming>,
    api_keys: Vec<&'static str>,
) -> hyper::Result<Response<Either<Incoming, Empty<Bytes>>>> {
    let sent = request.headers().get(AUTHORIZATION);
    let is_sent = |key: &&str| sent.is_some_and(|sent| sent == format!("Bearer {key}").as_str());
    if !api_keys.is_empty() && !api_keys.iter().any(is_sent) {
        let refused = Response::builder()
            .header(CONTENT_TYPE, "application/grpc")
            .header("grpc-status", "16")
            .header("grpc-message", "Request unauthorized.");
        return Ok(refused.body(Either::Right(Empty::new())).unwrap());
    }
    let path = request.uri().path_and_query().unwrap().as_str();
    *request.uri_mut() = format!("http://{SERVER_NAME}{path}").parse().unwrap();
    request.headers_mut().remove(HOST);
    Ok(server.send_request(request).await?.map(Either::Left))
}
