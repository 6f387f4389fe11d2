//! Masks the raw output of agents. The file contains their secrets, and the values are stored
//! nowhere else, so they are looked up again.

use std::borrow::Cow;
use std::path::Path;

use vik_base::report::{ErrorCode, Exit, Failure};
use vik_daemon::Instance;
use vik_session::secrets::Resolver;
use vik_workflow::WorkflowFile;

use crate::cli::doctor::Scratch;

/// The hint for a secret that cannot be looked up.
const HINT: &str = "make the secret readable here, or use `--unmasked` if nobody else can see the output";

/// Looks up all secrets of the workflow: unknown values cannot be masked.
pub(super) fn resolve_secrets(workflow: &Path) -> Result<(), Failure> {
    let loaded = WorkflowFile::valid(workflow, |_| {}).map_err(|failure| failure.hint(HINT))?;
    let names: Vec<String> = loaded.workflow.secrets.keys().cloned().collect();
    let failure =
        |heading: &str, error: &dyn std::error::Error| Failure::failed(ErrorCode::Secrets, heading, error);
    let host = vik_daemon::host(&loaded.path, &loaded.workflow, &Instance::of(&loaded.path)?)?;
    if names.is_empty() {
        return Ok(());
    }
    let scratch = Scratch::new().map_err(|error| failure("cannot create a temporary folder", &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failure("cannot start", &error))?;
    let resolver = Resolver {
        host: &host,
        secrets: &loaded.workflow.secrets,
        folder: scratch.path(),
    };
    let found = runtime.block_on(resolver.values(&names, std::future::pending()));
    found.map(|_| ()).map_err(|error| {
        let heading = "cannot show the raw output: a secret cannot be read and therefore not masked";
        Failure::new(Exit::Failed, ErrorCode::SecretUnknown, heading)
            .with_source(&error)
            .hint(HINT)
    })
}

/// Masks the secrets in a line. A line without secrets is unchanged, even if it is not text.
pub(super) fn masked(line: &[u8]) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(line);
    match vik_mask::mask_json(&text) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(masked) => Cow::Owned(masked.into_bytes()),
    }
}
