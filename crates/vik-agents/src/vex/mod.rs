//! vex, the built-in agent: `vik vex exec --json`.
//!
//! One JSON object a line, `{"v":1,"seq":N,"type":…}`: `session_start`, `message`, `reasoning`, `tool_call`,
//! `tool_result`, `usage` (running totals of the run), `error`, `end`. The exit code says the same as `end`: 0 done,
//! 1 failed, 2 usage, 3 configuration, 4 login or model refused, 5 a limit reached, 6 no progress, 7 denied,
//! 130 interrupted.
//!
//! Permissions are vex's own three profiles, of the same names.

mod adapter;

pub(crate) use adapter::Vex;
use vik_core::workflow::Permission;

use crate::environment::environment;
use crate::flags::{Fixed, Rules, own_flags};
use crate::{Launch, LaunchContext, LaunchError, path_text, valid_session_id};

const RULES: Rules = Rules {
    fixed: &[
        Fixed {
            names: &["json"],
            same: Some("true"),
            instead: "Vik reads vex's JSON",
        },
        Fixed {
            names: &["model", "m"],
            same: None,
            instead: "the profile's `model` names it",
        },
        Fixed {
            names: &["provider"],
            same: None,
            instead: "the profile's `provider` names it",
        },
        Fixed {
            names: &["base-url"],
            same: None,
            instead: "the profile's `base_url` names it",
        },
        Fixed {
            names: &["cd", "C"],
            same: None,
            instead: "an agent runs in its issue workspace",
        },
        Fixed {
            names: &["resume"],
            same: None,
            instead: "Vik chooses which conversation goes on",
        },
    ],
    permission: &["permission"],
};

pub(crate) fn launch(cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    let profile = cx.profile;
    let model = profile
        .model
        .as_deref()
        .ok_or(LaunchError::NoModel { runtime: "vex" })?;
    let own = own_flags(profile, &RULES)?;

    let mut set = Vec::new();
    if let Some(home) = cx.private_home {
        set.push(("VEX_HOME", path_text(home)?.to_owned()));
    }
    let mut argv = if profile.command.is_empty() {
        vec![path_text(cx.vik)?.to_owned(), "vex".to_owned()]
    } else {
        profile.command.clone()
    };
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
    if !own.permission {
        let permission = match profile.permission {
            Permission::ReadOnly => "read-only",
            Permission::WorkspaceWrite => "workspace-write",
            Permission::Full => "full",
        };
        push(&["--permission", permission]);
    }
    if let Some(id) = cx.resume {
        if !valid_session_id(profile.runtime, id) {
            return Err(LaunchError::BadResumeId {
                runtime: "vex",
                id: id.to_owned(),
            });
        }
        push(&["--resume", id]);
    }
    push(&["-"]);
    Ok(Launch {
        argv,
        env: environment(cx, &set),
    })
}
