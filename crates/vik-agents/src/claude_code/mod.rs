//! Claude Code: `claude -p --output-format stream-json`.
//!
//! - The prompt goes to stdin, never on the command line.
//! - The `result` line decides, together with exit code 0: an API failure has `subtype: success`
//!   with `is_error: true`, and an interrupt may exit with 0. It is not always the last line.
//! - `modelUsage` and `total_cost_usd` cover the whole run including sub-agents; `usage` covers
//!   only the main conversation. The input tokens of both exclude the cached ones, which are added
//!   here. Until the result arrives, the usage is the sum over the requests, which is slightly low.
//! - A refused tool call is a tool result with an error, and is listed in `permission_denials`; the
//!   run continues.
//!
//! In an interactive session Claude Code also reads stream-json: `control.rs`.
//!
//! Permissions: Claude Code has no OS sandbox in this mode. `workspace-write` and `full` are
//! therefore the same, `bypassPermissions`: nobody can answer a prompt, and anything less refuses
//! `git commit`. `read-only` denies the tools that write, including the shell; a deny rule applies
//! whatever the user's settings allow.

mod adapter;
mod control;
mod errors;
mod line;
mod requests;

pub(crate) use adapter::ClaudeCode;
use vik_core::money::MicroUsd;
use vik_core::workflow::{AgentProfile, ArgValue, Permission};

use crate::environment::environment;
use crate::flags::{FlagRules, ReservedFlag, has_flag, own_flags};
use crate::{Launch, LaunchContext, LaunchError, is_valid_session_id, path_text};

const RULES: FlagRules = FlagRules {
    reserved: &[
        ReservedFlag {
            names: &["print", "p"],
            accepted_value: Some("true"),
            instead: "Vik sets this flag",
        },
        ReservedFlag {
            names: &["verbose"],
            accepted_value: Some("true"),
            instead: "Vik sets this flag",
        },
        ReservedFlag {
            names: &["output-format"],
            accepted_value: Some("stream-json"),
            instead: "Vik requires the format `stream-json`",
        },
        ReservedFlag {
            names: &["input-format"],
            accepted_value: Some("text"),
            instead: "Vik passes the prompt as text",
        },
        ReservedFlag {
            names: &["model"],
            accepted_value: None,
            instead: "use `model` of the profile",
        },
        ReservedFlag {
            names: &["session-id", "resume", "r", "continue", "c", "fork-session"],
            accepted_value: None,
            instead: "Vik selects the conversation",
        },
    ],
    permission_flags: &[
        "permission-mode",
        "dangerously-skip-permissions",
        "allow-dangerously-skip-permissions",
    ],
};

/// The tools that can change something. `Monitor` runs a shell command, too.
const WRITING_TOOLS: &str = "Bash,Edit,EnterWorktree,Monitor,NotebookEdit,Write";

/// Returns the `--max-budget-usd` of the profile's own flags.
fn own_budget(profile: &AgentProfile) -> Option<MicroUsd> {
    profile
        .args
        .iter()
        .find(|(name, _)| name.trim_start_matches('-') == "max-budget-usd")
        .and_then(|(_, value)| match value {
            ArgValue::Text(text) => text.parse().ok().map(MicroUsd::from_usd),
            _ => None,
        })
}

pub(crate) fn launch(cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    let profile = cx.profile;
    let model = profile.model.as_deref().ok_or(LaunchError::NoModel {
        runtime: "claude_code",
    })?;
    let own = own_flags(profile, &RULES)?;
    if cx.interactive && has_flag(profile, &["bare"]) {
        // Measured: this flag skips the hook, and every call runs without approval.
        return Err(LaunchError::NotInteractive {
            runtime: "claude_code",
            why: "`args.bare` disables its hooks",
        });
    }

    // Vik does the waiting: few retries, and a timeout for requests without an answer.
    let mut set = vec![
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", "3".to_owned()),
        ("API_TIMEOUT_MS", "120000".to_owned()),
    ];
    if cx.is_root {
        // Otherwise Claude Code refuses to bypass permissions as root.
        set.push(("IS_SANDBOX", "1".to_owned()));
    }
    if let Some(home) = cx.private_home {
        set.push(("CLAUDE_CONFIG_DIR", path_text(home)?.to_owned()));
    }
    if let Some(base_url) = &profile.base_url {
        set.push(("ANTHROPIC_BASE_URL", base_url.clone()));
    }

    let mut argv = if profile.command.is_empty() {
        vec!["claude".to_owned()]
    } else {
        profile.command.clone()
    };
    argv.push("-p".to_owned());
    argv.extend(own.argv);
    let mut push = |args: &[&str]| argv.extend(args.iter().map(|arg| (*arg).to_owned()));
    push(&["--verbose", "--output-format", "stream-json", "--model", model]);
    if cx.interactive {
        push(&["--input-format", "stream-json"]);
    }
    if !own.has_permission_flag {
        match profile.permission {
            Permission::ReadOnly => {
                push(&["--permission-mode", "default", "--disallowedTools", WRITING_TOOLS]);
            }
            Permission::WorkspaceWrite | Permission::Full => {
                push(&["--permission-mode", "bypassPermissions"]);
            }
        }
    }
    // The last flag counts: the profile's own one stays if it is lower.
    if let Some(budget) = cx
        .budget
        .usd
        .filter(|budget| own_budget(profile).is_none_or(|own| *budget < own))
    {
        push(&["--max-budget-usd", &format!("{:.6}", budget.usd())]);
    }
    match cx.resume {
        Some(id) if !is_valid_session_id(profile.runtime, id) => {
            return Err(LaunchError::BadResumeId {
                runtime: "claude_code",
                id: id.to_owned(),
            });
        }
        Some(id) => push(&["--resume", id]),
        None => push(&["--session-id", &cx.session_id.to_string()]),
    }
    let mut env = environment(cx, &set);
    if cx.interactive {
        // Has the same effect as `--bare`.
        env.remove("CLAUDE_CODE_SIMPLE");
    }
    Ok(Launch { argv, env })
}
