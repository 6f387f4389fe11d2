//! The command line of Codex.

use std::collections::BTreeMap;
use std::path::Path;

use vik_core::workflow::{AgentProfile, ArgValue, Permission};

use crate::environment::environment;
use crate::extensions::{codex_settings, toml_string};
use crate::flags::{FlagRules, OwnFlags, ReservedFlag, has_flag, own_flags, own_texts};
use crate::launch::path_text;
use crate::{Driver, InputMode, Launch, LaunchContext, LaunchError};

const RULES: FlagRules = FlagRules {
    reserved: &[
        ReservedFlag {
            names: &["json", "experimental-json"],
            accepted_value: Some("true"),
            instead: "Vik requires the JSON output",
        },
        ReservedFlag {
            names: &["model", "m"],
            accepted_value: None,
            instead: "use `model` of the profile",
        },
        ReservedFlag {
            names: &["cd", "C"],
            accepted_value: None,
            instead: "the agent always runs in the workspace of the issue",
        },
        ReservedFlag {
            names: &["skip-git-repo-check"],
            accepted_value: Some("true"),
            instead: "Vik sets this flag",
        },
    ],
    permission_flags: &[
        "sandbox",
        "s",
        "full-auto",
        "yolo",
        "dangerously-bypass-approvals-and-sandbox",
        "approve-for-me",
    ],
};

/// Disables Codex's own sandbox.
const UNCONFINED: &str = "--dangerously-bypass-approvals-and-sandbox";

/// Few retries: Vik does the long waits.
const RETRIES: &str = "request_max_retries=2,stream_max_retries=2";

pub(super) fn launch(driver: &dyn Driver, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    let profile = cx.profile;
    let model = cx.model()?;
    let workdir = path_text(cx.workdir)?;
    let own = own_flags(profile, &RULES)?;

    let env = environment(driver, cx, &[])?;

    let mut argv = cx.program(driver);
    let mut push = |args: &[&str]| argv.extend(args.iter().map(|arg| (*arg).to_owned()));
    push(&[if cx.input.is_open() { "app-server" } else { "exec" }]);
    push(&own.argv.iter().map(String::as_str).collect::<Vec<_>>());
    if cx.input.is_open() {
        // Everything else is sent in the protocol.
        if let Some(flag) = non_interactive_flag(profile) {
            return Err(LaunchError::ReservedFlag {
                runtime: "codex",
                flag: flag.to_owned(),
                instead: "`codex app-server`, which stages with `approve.calls` and `steer: true` use, does not support it",
            });
        }
    } else {
        push(&["--json", "-m", model, "-C", workdir, "--skip-git-repo-check"]);
    }
    let permission = permission_args(cx, &own)?;
    push(&permission.iter().map(String::as_str).collect::<Vec<_>>());
    push(&[
        "-c",
        "analytics.enabled=false",
        "--disable",
        "plugins",
        "--disable",
        "unified_exec_tty",
    ]);
    push(&["--disable", "unbounded_connection_retries"]);
    if let Some(provider) = provider(profile, &env) {
        push(&["-c", "model_provider=vik", "-c", &provider]);
    }
    if let Some(extensions) = cx.extensions {
        for setting in codex_settings(extensions, cx.input.asks()) {
            push(&["-c", &setting]);
        }
    }
    // With anything but a thread id Codex silently starts a new thread and exits with 0.
    let thread = cx.resume_id(driver)?;
    if !cx.input.is_open() {
        if let Some(thread) = thread {
            push(&["resume", thread]);
        }
        push(&["-"]);
    }
    Ok(Launch {
        argv,
        env,
        files: Vec::new(),
    })
}

/// Builds the command line for a person at a terminal, who approves what the model requests.
pub(super) fn terminal_session(driver: &dyn Driver, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    let env = environment(driver, cx, &[])?;
    let mut argv = cx.program(driver);
    let mut push = |args: &[&str]| argv.extend(args.iter().map(|arg| (*arg).to_owned()));
    let thread = cx.resume_id(driver)?;
    if thread.is_some() {
        push(&["resume"]);
    }
    push(&["-m", cx.model()?, "-C", path_text(cx.workdir)?]);
    if cx.in_sandbox {
        // Codex's own sandbox cannot be nested in Vik's.
        push(&["-s", "danger-full-access", "-a", "on-request"]);
    }
    push(&["-c", "analytics.enabled=false"]);
    if let Some(provider) = provider(cx.profile, &env) {
        push(&["-c", "model_provider=vik", "-c", &provider]);
    }
    if let Some(thread) = thread {
        push(&[thread]);
    }
    Ok(Launch {
        argv,
        env,
        files: Vec::new(),
    })
}

/// Returns the setting for a server at an address of the profile's own.
fn provider(profile: &AgentProfile, env: &BTreeMap<String, String>) -> Option<String> {
    let url = toml_string(profile.base_url.as_ref()?);
    // Naming an unset variable would be an error; a local server may need no key.
    let key = ["CODEX_API_KEY", "OPENAI_API_KEY"]
        .into_iter()
        .find(|key| env.contains_key(*key));
    let key = key
        .map(|key| format!(",env_key={}", toml_string(key)))
        .unwrap_or_default();
    Some(format!(
        "model_providers.vik={{name=\"vik\",base_url={url},wire_api=\"responses\"{key},{RETRIES}}}"
    ))
}

/// Returns the first of the profile's own flags that only `codex exec` accepts.
pub(super) fn non_interactive_flag(profile: &AgentProfile) -> Option<&str> {
    let taken = |name: &str| {
        matches!(
            name.trim_start_matches('-'),
            "c" | "config" | "enable" | "disable"
        )
    };
    let mut flags = profile.args.iter();
    let found = flags.find(|(name, value)| {
        let fixed = RULES
            .reserved
            .iter()
            .any(|fixed| fixed.names.contains(&name.trim_start_matches('-')));
        !taken(name) && !fixed && !matches!(value, ArgValue::Switch(false))
    });
    found.map(|(name, _)| name.as_str())
}

/// Returns the arguments that select Codex's own sandbox, or disable it.
fn permission_args(cx: &LaunchContext<'_>, own: &OwnFlags) -> Result<Vec<String>, LaunchError> {
    let texts = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect();
    let (profile, is_open) = (cx.profile, cx.input.is_open());
    if cx.in_sandbox {
        // Codex's own sandbox cannot be nested in Vik's, which enforces the permission. A session
        // with an open input selects it when the thread starts.
        return match own_sandbox(profile) {
            _ if is_open => Ok(Vec::new()),
            Some(flag) => Err(LaunchError::SecondSandbox { flag }),
            None if own.has_permission_flag => Ok(Vec::new()),
            None => Ok(texts(&[UNCONFINED])),
        };
    }
    if own.has_permission_flag && !is_open {
        return match cx.questions {
            Some(questions) if !is_unconfined(profile) => Ok(texts(&["--add-dir", path_text(questions)?])),
            _ => Ok(Vec::new()),
        };
    }
    let mut args: Vec<String> = match profile.permission {
        Permission::ReadOnly if is_open => return Ok(Vec::new()),
        Permission::ReadOnly => return read_only(cx),
        Permission::WorkspaceWrite if is_open => Vec::new(),
        Permission::WorkspaceWrite => texts(&["-s", "workspace-write"]),
        Permission::Full if is_open => return Ok(Vec::new()),
        Permission::Full => return Ok(texts(&[UNCONFINED])),
    };
    args.extend([
        "-c".to_owned(),
        writable_roots(path_text(cx.workdir)?, cx.questions)?,
    ]);
    Ok(args)
}

/// Returns the arguments of a sandbox in which nothing but the file for questions can be written.
///
/// A sandbox mode permits no exception. A permission profile does, and takes precedence; a Codex
/// without such profiles ignores it. The settings of a repository could extend a profile, so its
/// name cannot be known before.
fn read_only(cx: &LaunchContext<'_>) -> Result<Vec<String>, LaunchError> {
    let Some(questions) = cx.questions else {
        return Ok(vec!["-s".to_owned(), "read-only".to_owned()]);
    };
    let (name, folder) = (
        format!("vik-{}", cx.session_id),
        toml_string(path_text(questions)?),
    );
    let settings = [
        r#"sandbox_mode="read-only""#.to_owned(),
        format!(r#"permissions.{name}={{extends=":read-only",filesystem={{{folder}="write"}}}}"#),
        format!(r#"default_permissions="{name}""#),
    ];
    let args = settings
        .into_iter()
        .flat_map(|setting| ["-c".to_owned(), setting]);
    Ok(args.collect())
}

/// Returns whether Codex can write the file for questions without Vik's sandbox.
///
/// `codex app-server` resumes a thread with the sandbox that it had, unless the request selects a
/// mode, and a mode permits no exception.
pub(super) fn can_write_questions(profile: &AgentProfile, input: InputMode) -> bool {
    if input.is_open() && profile.permission == Permission::ReadOnly {
        return false;
    }
    let mut modes = own_texts(profile, "sandbox").chain(own_texts(profile, "s"));
    !modes.any(|mode| mode == "read-only")
}

/// Returns whether the flags of a profile disable Codex's own sandbox.
fn is_unconfined(profile: &AgentProfile) -> bool {
    own_sandbox(profile).is_none() && !has_flag(profile, &["full-auto", "approve-for-me"])
}

/// Returns the setting that makes `.git` of the workspace and the folder for questions writable in
/// Codex's own sandbox.
fn writable_roots(workdir: &str, questions: Option<&Path>) -> Result<String, LaunchError> {
    let mut roots = toml_string(&format!("{}/.git", workdir.trim_end_matches('/')));
    if let Some(questions) = questions {
        roots = format!("{roots},{}", toml_string(path_text(questions)?));
    }
    Ok(format!("sandbox_workspace_write.writable_roots=[{roots}]"))
}

/// Returns the flag by which a profile asks for Codex's own sandbox.
fn own_sandbox(profile: &AgentProfile) -> Option<String> {
    let mut flags = profile.args.iter();
    let is_sandbox = |name: &str| matches!(name.trim_start_matches('-'), "sandbox" | "s");
    let is_open = |value: &ArgValue| matches!(value, ArgValue::Text(text) if text == "danger-full-access");
    let found = flags.find(|(name, value)| is_sandbox(name) && !is_open(value));
    found.map(|(name, _)| name.clone())
}
