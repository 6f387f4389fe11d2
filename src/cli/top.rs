//! `vik top`: the dashboard in a terminal.

use std::path::Path;

use clap::Args;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_client::Endpoint;
use vik_control::http::Keys;
use vik_tui::TopError;

use super::{CliResult, client, runtime};

/// `vik top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Connect to a daemon on another host: the link that `vik status` prints there, or a URL such as
    /// http://127.0.0.1:8080 with the token in VIK_API_TOKEN or VIK_API_TOKEN_FILE
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// Shows the dashboard until the person quits.
pub fn run(workflow: &Path, args: &TopArgs) -> CliResult {
    let runtime = runtime()?;
    let link = args.url.as_ref().and_then(|url| url.split_once("/login#code="));
    let endpoint = match (&args.url, link) {
        (_, Some((url, code))) => runtime
            .block_on(Endpoint::sign_in(url, code))
            .map_err(|error| failure(&TopError::Daemon(error)))?,
        (Some(url), None) => Endpoint::Tcp {
            url: url.clone(),
            token: Keys::from_environment()
                .map_err(|error| Failure::failed(ErrorCode::ApiToken, "cannot use the token", &error))?
                .ok_or_else(|| {
                    Failure::new(Exit::Usage, ErrorCode::ApiToken, "`--url` requires the token of that daemon")
                        .hint("use the link that `vik status` prints there as the URL, or set VIK_API_TOKEN or VIK_API_TOKEN_FILE")
                })?,
        },
        (None, None) => Endpoint::Unix(client::find(workflow)?.1.socket),
    };
    match runtime.block_on(vik_tui::run(endpoint)) {
        Ok(()) => Ok(Exit::Done),
        Err(error) => Err(failure(&error)),
    }
}

fn failure(error: &TopError) -> Failure {
    let (exit, code) = match error {
        TopError::NotATerminal(_) | TopError::DumbTerminal => (Exit::Usage, ErrorCode::Terminal),
        TopError::Daemon(cause) if cause.is_unreachable() => (Exit::NoDaemon, ErrorCode::DaemonUnreachable),
        TopError::Daemon(_) | TopError::Terminal { .. } => (Exit::Failed, ErrorCode::Top),
    };
    let mut failure = Failure::new(exit, code, error.to_string());
    if let Some(cause) = std::error::Error::source(error) {
        failure = failure.with_source(cause);
    }
    match error {
        TopError::Daemon(cause) => match cause.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        TopError::NotATerminal(_) => failure.hint("without a terminal, use `vik status`"),
        _ => failure,
    }
}
