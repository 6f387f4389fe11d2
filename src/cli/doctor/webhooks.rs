//! Checks whether each webhook has a secret.

use vik_core::workflow::Workflow;
use vik_daemon::webhooks::secret;

use super::check::{Check, Group};

/// The minimum length of a secret: a shorter one could be guessed.
const MIN_SECRET_CHARS: usize = 16;

/// Returns the checks of the webhooks.
pub(super) fn check(workflow: &Workflow) -> Vec<Check> {
    let hooks = workflow.webhooks.hooks.iter();
    hooks
        .map(|(name, hook)| {
            let (check, variable) = (format!("webhook.{name}"), &hook.secret_env);
            match secret(hook) {
                None => {
                    let message = format!(
                        "{variable} is not set here or contains no secret: all calls would be rejected"
                    );
                    Check::warning(Group::Issues, check, "hook_secret", message)
                        .hint("set it in the environment of the daemon to the secret of the sender")
                }
                Some(secret) if secret.len() < MIN_SECRET_CHARS => {
                    let message =
                        format!("the secret in {variable} is shorter than {MIN_SECRET_CHARS} characters");
                    Check::warning(Group::Issues, check, "hook_secret_weak", message)
                        .hint("generate a random secret, for example with `openssl rand -hex 32`")
                }
                Some(_) => Check::ok(Group::Issues, check, format!("the secret is in {variable}")),
            }
        })
        .collect()
}
