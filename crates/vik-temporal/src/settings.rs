//! The settings of a workflow, with its secrets and certificates as they are on this machine.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};
use vik_base::report::{ErrorCode, Failure};
use vik_core::workflow::{EngineTls, SecretRef, Temporal, Workflow};
use vik_proc::untrusted;
use vik_session::host::Host;
use vik_session::secrets::{Resolver, SecretError};
use vik_workspace::resolve_path;

use crate::codec::{Codec, CodecError, PayloadKey};
use crate::connect::{ClientCertificate, Secret, Settings, Tls};

/// The maximum size of a file with certificates or a key, in bytes.
const MAX_PEM_BYTES: u64 = 1024 * 1024;

/// What `engine.temporal` names cannot be used on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("`engine.temporal.{key}`: {source}")]
    Secret { key: &'static str, source: SecretError },
    #[error(
        "`engine.temporal.payload_key`: the value of the secret is neither 32 bytes in base64 nor 64 hexadecimal digits"
    )]
    PayloadKeyText,
    #[error("`engine.temporal.payload_key`: {0}")]
    PayloadKey(#[from] CodecError),
    #[error("`engine.temporal.tls.{key}`: cannot read {path}: {source}")]
    File {
        key: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::failed(ErrorCode::Engine, "cannot use the engine of the workflow", &error)
    }
}

/// Returns the settings with which a process that presents itself as `identity` connects. Commands of
/// secrets write to `folder` what they print to stderr, while they run.
///
/// # Errors
///
/// Returns an error if a secret has no value, or a file cannot be read.
pub async fn resolve(
    temporal: &Temporal,
    workflow: &Workflow,
    host: &Host,
    folder: &Path,
    identity: &str,
) -> Result<Settings, SettingsError> {
    let payload_key = secret("payload_key", &temporal.payload_key, workflow, host, folder).await?;
    Ok(Settings {
        address: temporal.address.as_str().to_owned(),
        namespace: temporal.namespace.clone(),
        identity: identity.to_owned(),
        tls: temporal.tls.as_ref().map(|tls| read_tls(tls, host)).transpose()?,
        api_key: api_key(temporal, workflow, host, folder).await?,
        codec: match payload_key {
            Some(text) => Codec::encrypted(payload_key_of(&text)?, Vec::new()),
            None => Codec::default(),
        },
    })
}

/// Returns the API key as it is now.
///
/// # Errors
///
/// Returns an error if it has no value.
pub async fn api_key(
    temporal: &Temporal,
    workflow: &Workflow,
    host: &Host,
    folder: &Path,
) -> Result<Option<Secret<String>>, SettingsError> {
    let key = secret("api_key", &temporal.api_key, workflow, host, folder).await?;
    Ok(key.map(Secret))
}

async fn secret(
    key: &'static str,
    secret: &Option<SecretRef>,
    workflow: &Workflow,
    host: &Host,
    folder: &Path,
) -> Result<Option<String>, SettingsError> {
    let Some(secret) = secret else {
        return Ok(None);
    };
    let resolver = Resolver {
        host,
        secrets: &workflow.secrets,
        folder,
    };
    let value = resolver.value(secret.name(), std::future::pending()).await;
    value
        .map(Some)
        .map_err(|source| SettingsError::Secret { key, source })
}

/// Returns the key that a text contains. Its id is a part of its digest, so that a machine with
/// another key gets an error which says so.
fn payload_key_of(text: &str) -> Result<PayloadKey, SettingsError> {
    let text = text.trim();
    let bytes = from_hex(text).or_else(|| BASE64_STANDARD.decode(text).ok());
    let bytes = bytes
        .filter(|bytes| bytes.len() == 32)
        .ok_or(SettingsError::PayloadKeyText)?;
    let digest = Sha256::digest(&bytes);
    let id: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Ok(PayloadKey::new(&id, &bytes)?)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = (0..text.len()).step_by(2);
    digits
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

fn read_tls(tls: &EngineTls, host: &Host) -> Result<Tls, SettingsError> {
    let read = |key: &'static str, file: &str| {
        let path = resolve_path(&host.workflow_dir, file);
        // Certificates are often links to the present ones.
        let content = path
            .canonicalize()
            .and_then(|target| untrusted::read(&target, MAX_PEM_BYTES));
        content.map_err(|source| SettingsError::File { key, path, source })
    };
    Ok(Tls {
        server_ca: tls
            .ca_file
            .as_deref()
            .map(|file| read("ca_file", file))
            .transpose()?,
        server_name: tls.server_name.clone(),
        client: match &tls.client {
            Some(client) => Some(ClientCertificate {
                certificate: read("cert_file", &client.cert_file)?,
                key: Secret(read("key_file", &client.key_file)?),
            }),
            None => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_key_is_base64_or_hexadecimal() {
        let hex = "ab".repeat(32);
        let base64 = BASE64_STANDARD.encode([0xab; 32]);
        let keys = [hex, format!(" {base64}\n")].map(|text| payload_key_of(&text).unwrap());
        assert_eq!(format!("{:?}", keys[0]), format!("{:?}", keys[1]));
        for text in [
            "",
            "ab",
            &"ab".repeat(31),
            &"zz".repeat(32),
            &BASE64_STANDARD.encode([1; 31]),
        ] {
            let error = payload_key_of(text).unwrap_err();
            assert!(matches!(error, SettingsError::PayloadKeyText), "{text}: {error}");
            assert!(text.is_empty() || !error.to_string().contains(text), "{error}");
        }
    }
}
