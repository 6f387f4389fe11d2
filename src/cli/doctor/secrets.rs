//! Checks whether each secret has a value. Values are never shown.

use tokio_util::sync::CancellationToken;
use vik_base::report::chain;
use vik_core::workflow::{SecretSource, Workflow};
use vik_session::host::Host;
use vik_session::secrets::{Resolver, is_short};

use super::Scratch;
use super::check::{Check, Group};

/// Returns one check for each secret. Without a scratch folder, commands are not tried.
pub(super) async fn check(
    host: &Host,
    workflow: &Workflow,
    scratch: Option<&Scratch>,
    cancel: &CancellationToken,
) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, source) in &workflow.secrets {
        let check = format!("secret.{name}");
        if scratch.is_none() && matches!(source, SecretSource::Command(_)) {
            checks.push(Check::ok(Group::Secrets, check, format!("{name}: not tried")));
            continue;
        }
        let resolver = Resolver {
            host,
            secrets: &workflow.secrets,
            folder: scratch.map_or(&host.workflow_dir, Scratch::path),
        };
        let source_name = match source {
            SecretSource::Env(variable) => format!("the variable {variable}"),
            SecretSource::File(file) => format!("the file {file}"),
            SecretSource::Command(_) => "a command".to_owned(),
        };
        checks.push(match resolver.value(name, cancel.cancelled()).await {
            Ok(value) if is_short(&value) => {
                let message = format!(
                    "{name}: the value of {source_name} is shorter than 8 bytes and cannot be masked"
                );
                Check::warning(Group::Secrets, check, "secret_short", message)
                    .hint("use a longer value: such a short text could be an ordinary word")
            }
            Ok(_) => Check::ok(
                Group::Secrets,
                check,
                format!("{name}: {source_name} has a value"),
            ),
            Err(error) => Check::error(Group::Secrets, check, "secret_unknown", chain(&error))
                .hint("attempts that need this secret fail before their agent starts"),
        });
    }
    checks
}
