//! Checks whether notifiers have the variables that they need. Sends nothing: `vik notify test`
//! does that.

use vik_core::workflow::{NotifyAddress, NotifyChannel, Workflow};
use vik_session::host::own_environment;

use super::check::{Check, Group};

/// Returns one check for each notifier.
pub(super) fn check(workflow: &Workflow) -> Vec<Check> {
    let environment = own_environment();
    let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let mut checks = Vec::new();
    for (name, notifier) in &workflow.notify {
        let check = format!("notify.{name}");
        let mut variables = Vec::new();
        let kind = match &notifier.channel {
            NotifyChannel::Command(_) => "a command",
            NotifyChannel::Webhook { address, secret_env } => {
                if let NotifyAddress::Env(variable) = address {
                    variables.push(variable);
                }
                variables.extend(secret_env);
                match secret_env {
                    Some(_) => "a signed webhook",
                    None => "an unsigned webhook",
                }
            }
        };
        let unset: Vec<_> = variables
            .into_iter()
            .filter(|variable| !is_set(variable))
            .collect();
        checks.push(if let Some(variable) = unset.first() {
            let message = format!("{name}: the variable {variable} is not set");
            Check::error(Group::Notifiers, check, "notify_variable", message)
                .hint("set it in the environment of the daemon")
        } else {
            Check::ok(
                Group::Notifiers,
                check,
                format!("{name}: {kind}; test it with `vik notify test {name}`"),
            )
        });
    }
    checks
}
