//! The command line of vex.

use vik_core::money::MicroUsd;
use vik_core::workflow::{AgentProfile, Permission};

use super::READ_ONLY;
use crate::environment::environment;
use crate::extensions::vex_args;
use crate::flags::{FlagRules, ReservedFlag, own_flags, own_texts};
use crate::launch::path_text;
use crate::{Driver, InputMode, Launch, LaunchContext, LaunchError};

const RULES: FlagRules = FlagRules {
    reserved: &[
        ReservedFlag {
            names: &["json"],
            accepted_value: Some("true"),
            instead: "Vik requires the JSON output",
        },
        ReservedFlag {
            names: &["model", "m"],
            accepted_value: None,
            instead: "use `model` of the profile",
        },
        ReservedFlag {
            names: &["provider"],
            accepted_value: None,
            instead: "use `provider` of the profile",
        },
        ReservedFlag {
            names: &["base-url"],
            accepted_value: None,
            instead: "use `base_url` of the profile",
        },
        ReservedFlag {
            names: &["cd", "C"],
            accepted_value: None,
            instead: "the agent always runs in the workspace of the issue",
        },
        ReservedFlag {
            names: &["resume", "fork"],
            accepted_value: None,
            instead: "Vik selects the conversation",
        },
        ReservedFlag {
            names: &["scope", "scope-env"],
            accepted_value: None,
            instead: "use `intent.owned_scope` of the stage",
        },
        ReservedFlag {
            names: &["ask"],
            accepted_value: None,
            instead: "use `approve.calls` of the stage",
        },
        ReservedFlag {
            names: &["messages"],
            accepted_value: None,
            instead: "use `steer` of the profile",
        },
    ],
    permission_flags: &["permission"],
};

/// The variable with the scope of vex.
const SCOPE_ENV: &str = "VIK_SCOPE";

/// Returns the permission of vex: the profile's own flag, or the profile's permission.
pub(super) fn permission(profile: &AgentProfile) -> &str {
    let own = own_texts(profile, "permission").next_back();
    own.unwrap_or(match profile.permission {
        Permission::ReadOnly => READ_ONLY,
        Permission::WorkspaceWrite => "workspace-write",
        Permission::Full => "full",
    })
}

/// Returns the number of one of the profile's own flags.
fn own_number<T: std::str::FromStr>(profile: &AgentProfile, flag: &str) -> Option<T> {
    own_texts(profile, flag).next()?.parse().ok()
}

/// Returns whether vex can know the price of the model. A server at an address of the profile's own
/// has no price list.
fn is_priced(profile: &AgentProfile) -> bool {
    let is_listed = !matches!(profile.provider.as_deref(), Some("ollama" | "local"));
    profile.price.is_some() || (profile.base_url.is_none() && is_listed)
}

pub(super) fn launch(driver: &dyn Driver, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    let profile = cx.profile;
    let model = cx.model()?;
    let own = own_flags(profile, &RULES)?;

    let mut set = Vec::new();
    if let Some(scope) = cx.scope {
        // Lists of texts are always JSON.
        set.push((SCOPE_ENV, serde_json::to_string(scope).unwrap_or_default()));
    }
    let mut argv = cx.program(driver);
    if argv.is_empty() {
        argv = vec![path_text(cx.vik)?.to_owned(), "vex".to_owned()];
    }
    argv.push("exec".to_owned());
    argv.extend(own.argv);
    let mut push = |args: &[&str]| argv.extend(args.iter().map(|arg| (*arg).to_owned()));
    push(&["--json", "-m", model]);
    if let Some(provider) = &profile.provider {
        push(&["--provider", provider]);
    }
    if let Some(base_url) = &profile.base_url {
        push(&["--base-url", base_url]);
    }
    push(&["-C", path_text(cx.workdir)?]);
    if !own.has_permission_flag {
        push(&["--permission", permission(profile)]);
    }
    if cx.scope.is_some() {
        push(&["--scope-env", SCOPE_ENV]);
    }
    if let Some(price) = &profile.price {
        // A JSON string is also a TOML string.
        let model = serde_json::Value::from(model);
        for (key, usd) in [
            ("input", price.input),
            ("cached_input", price.cached_input),
            ("cache_write", price.cache_write),
            ("output", price.output),
        ] {
            push(&["--config", &format!("models.{model}.{key}={usd:?}")]);
        }
    }
    // The last flag counts: the profile's own one stays if it is lower.
    let own_usd = own_number(profile, "max-usd").map(MicroUsd::from_usd);
    let usd = cx.budget.usd.filter(|_| is_priced(profile));
    if let Some(usd) = usd.filter(|usd| own_usd.is_none_or(|own| *usd < own)) {
        push(&["--max-usd", &format!("{:.6}", usd.usd())]);
    }
    let own_tokens = own_number(profile, "max-tokens");
    // The daemon handles a budget of zero; vex accepts no such limit.
    let tokens = cx.budget.tokens.filter(|tokens| *tokens > 0);
    if let Some(tokens) = tokens.filter(|tokens| own_tokens.is_none_or(|own| *tokens < own)) {
        push(&["--max-tokens", &tokens.to_string()]);
    }
    let mut files = Vec::new();
    if let Some(extensions) = cx.extensions {
        let (args, file) = vex_args(extensions)?;
        push(&args.iter().map(String::as_str).collect::<Vec<_>>());
        files.extend(file);
    }
    if let Some(id) = cx.resume_id(driver)? {
        push(&["--resume", id]);
    }
    match cx.input {
        InputMode::Prompt => push(&["-"]),
        InputMode::Messages => push(&["--messages"]),
        InputMode::Approvals => push(&["--messages", "--ask"]),
    }
    Ok(Launch {
        argv,
        env: environment(driver, cx, &set)?,
        files,
    })
}
