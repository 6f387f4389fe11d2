//! `vex mcp-tools`: lists the tools of the servers in files, without other settings.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use toml::Value;

use super::exec::policy;
use super::output;
use crate::config::{Flag, LoadedConfig, Sources};
use crate::events::ExitReason;
use crate::interrupt::Interrupt;
use crate::redact::redact;
use crate::tools::{Root, Toolbox};

/// `vex mcp-tools`
#[derive(Debug, Args)]
pub struct McpToolsArgs {
    /// JSON file with MCP servers; can be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
    pub mcp_config: Vec<PathBuf>,
    /// Permission profile of the programs that are servers
    #[arg(long, value_name = "PROFILE")]
    pub permission: String,
}

/// Starts the servers in the current folder, and prints what each lists. A server that does not
/// start is no error of this program.
pub(super) fn run(args: &McpToolsArgs) -> ExitReason {
    let loaded = LoadedConfig::load(&Sources {
        system: PathBuf::from("/dev/null"),
        user: None,
        mcp_files: &args.mcp_config,
        flags: vec![Flag {
            key: "permission",
            value: Value::String(args.permission.clone()),
        }],
        ..Sources::of_variables(Vec::new())
    });
    let settings = match loaded {
        Ok(loaded) => loaded.settings,
        Err(error) => return output::fail(ExitReason::Config, &output::with_source(&error)),
    };
    let root = match Root::open(".".as_ref(), false) {
        Ok(root) => root,
        Err(error) => return output::fail(ExitReason::Config, &output::with_source(&error)),
    };
    let interrupt = Interrupt::new();
    if let Err(error) = interrupt.install(|| {}) {
        return output::fail(ExitReason::Failed, &format!("cannot handle signals: {error}"));
    }
    let tools = Toolbox::new(root, policy(&settings));
    match tools.list_servers(&settings.mcp, &interrupt) {
        Ok(Some(listings)) => match serde_json::to_string(&listings) {
            Ok(text) => output::print(&format!("{}\n", redact(&text))),
            Err(error) => output::fail(ExitReason::Failed, &error.to_string()),
        },
        Ok(None) => ExitReason::Interrupted,
        Err(error) => output::fail(ExitReason::Failed, &format!("cannot start the servers: {error}")),
    }
}
