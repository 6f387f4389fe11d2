//! The command line of Claude Code.

use vik_core::money::MicroUsd;
use vik_core::workflow::{AgentProfile, Permission, SandboxFiles};

use super::extensions;
use crate::environment::environment;
use crate::flags::{FlagRules, ReservedFlag, has_flag, own_flags, own_texts};
use crate::launch::path_text;
use crate::{Driver, Launch, LaunchContext, LaunchError};

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

/// The tools that can change something, except `Write`. `Monitor` runs a shell command, too.
const WRITING_TOOLS_BUT_WRITE: &str = "Bash,Edit,EnterWorktree,Monitor,NotebookEdit";

/// Returns whether Claude Code can write the file for questions.
///
/// With `permission: read-only` no tool may write without Vik's sandbox, since the user's settings
/// can allow more than one folder. In a sandbox that protects the workspace, `Write` is left.
pub(super) fn can_write_questions(profile: &AgentProfile, files: Option<SandboxFiles>) -> bool {
    if has_flag(profile, &["dangerously-skip-permissions"]) {
        return true;
    }
    match own_permission_mode(profile) {
        Some(mode) => mode == "bypassPermissions" || mode == ACCEPT_EDITS,
        None if has_flag(profile, RULES.permission_flags) => false,
        None => profile.permission != Permission::ReadOnly || files == Some(SandboxFiles::ReadOnly),
    }
}

/// The permission mode in which files of the working directories can be changed.
const ACCEPT_EDITS: &str = "acceptEdits";

/// Returns the permission mode that the profile's own flags select.
fn own_permission_mode(profile: &AgentProfile) -> Option<&str> {
    own_texts(profile, "permission-mode").next_back()
}

/// Returns the rule that allows changes in a folder, whose path is a pattern in it.
fn edit_rule(folder: &str) -> String {
    let mut path = String::with_capacity(folder.len());
    for c in folder.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ']') {
            path.push('\\');
        }
        path.push(c);
    }
    // An absolute path has two slashes there.
    format!("Edit(/{path}/**)")
}

/// Returns whether the profile's own flags disable the hook that asks before calls. Measured: every
/// call runs without approval then.
pub(super) fn skips_hooks(profile: &AgentProfile) -> bool {
    has_flag(profile, &["bare"])
}

/// Returns whether the profile's own flags demand another format of the input.
pub(super) fn has_input_format(profile: &AgentProfile) -> bool {
    has_flag(profile, &["input-format"])
}

/// Returns the `--max-budget-usd` of the profile's own flags.
fn own_budget(profile: &AgentProfile) -> Option<MicroUsd> {
    let usd = own_texts(profile, "max-budget-usd").next()?.parse().ok()?;
    Some(MicroUsd::from_usd(usd))
}

/// Returns the variables that an attempt and a person's session share.
fn places(cx: &LaunchContext<'_>) -> Vec<(&'static str, String)> {
    let mut set = vec![("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned())];
    if let Some(base_url) = &cx.profile.base_url {
        set.push(("ANTHROPIC_BASE_URL", base_url.clone()));
    }
    set
}

/// Builds the command line for a person at a terminal. The permissions are those of the person's
/// settings.
pub(super) fn terminal_session(driver: &dyn Driver, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    let mut argv = cx.program(driver);
    argv.extend(["--model".to_owned(), cx.model()?.to_owned()]);
    if let Some(id) = cx.resume_id(driver)? {
        argv.extend(["--resume".to_owned(), id.to_owned()]);
    }
    let env = environment(driver, cx, &places(cx))?;
    Ok(Launch {
        argv,
        env,
        files: Vec::new(),
    })
}

pub(super) fn launch(driver: &dyn Driver, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    let profile = cx.profile;
    let model = cx.model()?;
    let own = own_flags(profile, &RULES)?;
    if cx.input.asks() && skips_hooks(profile) {
        return Err(LaunchError::NotInteractive {
            runtime: "claude_code",
            why: "`args.bare` disables its hooks",
        });
    }

    // Vik does the waiting: few retries, and a timeout for requests without an answer.
    let mut set = vec![
        ("CLAUDE_CODE_MAX_RETRIES", "3".to_owned()),
        ("API_TIMEOUT_MS", "120000".to_owned()),
    ];
    if cx.is_root {
        // Otherwise Claude Code refuses to bypass permissions as root.
        set.push(("IS_SANDBOX", "1".to_owned()));
    }
    set.extend(places(cx));
    let added = extensions::added(cx)?;
    set.extend(added.env);
    let mut allowed = added.allowed;

    let mut argv = cx.program(driver);
    argv.push("-p".to_owned());
    argv.extend(own.argv);
    let mut push = |args: &[&str]| argv.extend(args.iter().map(|arg| (*arg).to_owned()));
    push(&["--verbose", "--output-format", "stream-json", "--model", model]);
    if cx.input.is_open() {
        // A message is printed when it is taken.
        push(&["--input-format", "stream-json", "--replay-user-messages"]);
    }
    if profile.stream && !has_flag(profile, &["include-partial-messages"]) {
        push(&["--include-partial-messages"]);
    }
    if !own.has_permission_flag {
        match profile.permission {
            Permission::ReadOnly => {
                let questions = cx.questions.map(path_text).transpose()?;
                push(&["--permission-mode", "default", "--disallowedTools"]);
                match questions {
                    Some(folder) if cx.in_sandbox => {
                        push(&[WRITING_TOOLS_BUT_WRITE, "--add-dir", folder]);
                        allowed.insert(0, edit_rule(folder));
                    }
                    _ => push(&[&format!("{WRITING_TOOLS_BUT_WRITE},Write")]),
                }
            }
            Permission::WorkspaceWrite | Permission::Full => {
                push(&["--permission-mode", "bypassPermissions"]);
            }
        }
    }
    if !allowed.is_empty() {
        push(&["--allowedTools"]);
        push(&allowed.iter().map(String::as_str).collect::<Vec<_>>());
    }
    push(&added.argv.iter().map(String::as_str).collect::<Vec<_>>());
    if own_permission_mode(profile) == Some(ACCEPT_EDITS)
        && let Some(questions) = cx.questions
    {
        push(&["--add-dir", path_text(questions)?]);
    }
    // The last flag counts: the profile's own one stays if it is lower.
    if let Some(budget) = cx
        .budget
        .usd
        .filter(|budget| own_budget(profile).is_none_or(|own| *budget < own))
    {
        push(&["--max-budget-usd", &format!("{:.6}", budget.usd())]);
    }
    match cx.resume_id(driver)? {
        Some(id) => push(&["--resume", id]),
        None => push(&["--session-id", &cx.session_id.to_string()]),
    }
    let mut env = environment(driver, cx, &set)?;
    if cx.input.asks()
        || cx
            .extensions
            .is_some_and(|extensions| !extensions.servers.is_empty())
    {
        // Has the same effect as `--bare`.
        env.remove("CLAUDE_CODE_SIMPLE");
    }
    Ok(Launch {
        argv,
        env,
        files: added.files,
    })
}
