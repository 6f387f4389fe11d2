//! MCP servers and skills of Claude Code.
//!
//! In the mode `bypassPermissions`, in which agents that may write run, Claude Code calls every tool
//! of a server without a rule. A deny rule for a server would win over an allow rule for its tools.
//! A hook in the settings of the session denies each tool that is in no list: it is asked in every
//! mode.

use serde_json::{Map, json};
use vik_core::workflow::{McpServer, McpTools};

use crate::extensions::{Extensions, LaunchFile, millis};
use crate::flags::has_flag;
use crate::launch::path_text;
use crate::{LaunchContext, LaunchError};

/// What the agent gets in addition.
#[derive(Default)]
pub(super) struct Added {
    pub(super) argv: Vec<String>,
    /// The rules for `--allowedTools`.
    pub(super) allowed: Vec<String>,
    pub(super) env: Vec<(&'static str, String)>,
    pub(super) files: Vec<LaunchFile>,
}

/// The number of bytes of a token, which limits of results are converted with.
const BYTES_PER_TOKEN: u64 = 4;

pub(super) fn added(cx: &LaunchContext<'_>) -> Result<Added, LaunchError> {
    let mut added = Added::default();
    let Some(extensions) = cx.extensions else {
        return Ok(added);
    };
    if !extensions.servers.is_empty() {
        servers(cx, extensions, &mut added)?;
    }
    if !extensions.skills.is_empty() {
        let plugin = Extensions::plugin_dir(&extensions.folder);
        added
            .argv
            .extend(["--plugin-dir".to_owned(), path_text(&plugin)?.to_owned()]);
        added.files.push(LaunchFile {
            path: plugin.join(".claude-plugin/plugin.json"),
            text: format!(
                "{:#}\n",
                json!({ "name": "vik", "description": "Skills of the workflow" })
            ),
        });
    }
    Ok(added)
}

fn servers(cx: &LaunchContext<'_>, extensions: &Extensions, added: &mut Added) -> Result<(), LaunchError> {
    for (flag, instead) in [
        (
            "bare",
            "it disables the hook that restricts the tools of MCP servers",
        ),
        (
            "settings",
            "Vik restricts the tools of MCP servers with this flag",
        ),
    ] {
        if has_flag(cx.profile, &[flag]) {
            return Err(LaunchError::ReservedFlag {
                runtime: "claude_code",
                flag: flag.to_owned(),
                instead,
            });
        }
    }
    // Otherwise the tools could be missing from the first request.
    let config = extensions.mcp_file(|_| Map::from_iter([("alwaysLoad".to_owned(), true.into())]));
    let settings = LaunchFile {
        path: extensions.folder.join("claude-settings.json"),
        text: format!("{:#}\n", settings(extensions)),
    };
    for arg in [
        "--strict-mcp-config",
        "--mcp-config",
        path_text(&config.path)?,
        "--settings",
        path_text(&settings.path)?,
    ] {
        added.argv.push(arg.to_owned());
    }
    for (name, server) in &extensions.servers {
        match &server.tools {
            McpTools::None => {}
            McpTools::All => added.allowed.push(format!("mcp__{name}")),
            McpTools::Named(tools) => {
                added
                    .allowed
                    .extend(tools.iter().map(|tool| model_name(name, tool)));
            }
        }
    }
    let startup = extensions.maximum(|server| server.startup_timeout);
    let call = extensions.maximum(|server| server.call_timeout);
    let output = extensions.maximum(|server| server.max_output);
    let variables = [
        ("MCP_TIMEOUT", startup.map(millis)),
        ("MCP_TOOL_TIMEOUT", call.map(millis)),
        (
            "MAX_MCP_OUTPUT_TOKENS",
            output.map(|bytes| bytes.div_ceil(BYTES_PER_TOKEN)),
        ),
    ];
    let variables = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?.to_string())));
    added.env.extend(variables);
    added.files.extend([config, settings]);
    Ok(())
}

/// Returns the name of a tool as Claude Code forms it.
fn model_name(server: &str, tool: &str) -> String {
    McpServer::model_name(server, &tool.replace('.', "_"))
}

/// Returns the settings with the hook that denies the tools without a rule, and resources, for which
/// there are no rules.
fn settings(extensions: &Extensions) -> serde_json::Value {
    let permitted = extensions
        .servers
        .iter()
        .flat_map(|(name, server)| match &server.tools {
            McpTools::None => Vec::new(),
            McpTools::All => vec![format!("{name}__.*")],
            McpTools::Named(tools) => tools
                .iter()
                .map(|tool| format!("{name}__{}", tool.replace('.', "_")))
                .collect(),
        });
    let permitted: Vec<_> = permitted.collect();
    let matcher = match permitted.as_slice() {
        [] => "^(mcp__.*|.*McpResource.*)$".to_owned(),
        permitted => format!("^(mcp__(?!({})$).*|.*McpResource.*)$", permitted.join("|")),
    };
    let command = "echo 'Refused by Vik: no rule of the workflow permits this tool.' >&2; exit 2";
    json!({
        "disableAllHooks": false,
        "hooks": { "PreToolUse": [{ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] }] },
    })
}
