//! `vik sign-ins`

use std::path::Path;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use vik_api::SignInsPage;
use vik_base::clock;
use vik_base::report::{ErrorCode, Exit, Failure, ago, count, one_line, table};
use vik_client::{Client, ClientError};

use super::{CliResult, client, print, print_result};

/// `vik sign-ins`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SignInsArgs {
    /// Command [default: list the sign-ins]
    #[command(subcommand)]
    pub verb: Option<SignInsVerb>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The verbs of `vik sign-ins`.
#[derive(Debug, Subcommand)]
pub enum SignInsVerb {
    /// Sign a browser out immediately
    #[command(after_help = "Run `vik sign-ins` to list the ids.")]
    Revoke {
        /// Id of the sign-in
        #[arg(value_name = "ID", required_unless_present = "all")]
        id: Option<String>,
        /// Sign out all browsers
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

/// Lists the browsers that are signed in to the dashboard, or signs them out.
pub fn run(workflow: &Path, args: &SignInsArgs) -> CliResult {
    match &args.verb {
        None => list(workflow, args.json),
        Some(SignInsVerb::Revoke { id, .. }) => revoke(workflow, id.as_deref()),
    }
}

fn list(workflow: &Path, json: bool) -> CliResult {
    let page = ask(workflow, async |client| client.sign_ins().await)?;
    print_result(json, &page, || text(&page, clock::now()))
}

fn revoke(workflow: &Path, id: Option<&str>) -> CliResult {
    let steered = ask(workflow, async |client| client.revoke_sign_in(id).await);
    let steered = steered.map_err(|failure| unknown(failure, id))?;
    print(&format!("{} signed out\n", count(steered.count, "browser")));
    Ok(Exit::Done)
}

/// Replaces the error for an unknown sign-in, whose hint names a path of the API.
fn unknown(failure: Failure, id: Option<&str>) -> Failure {
    match id {
        Some(id) if failure.code() == ErrorCode::NoSignIn.as_str() => Failure::new(
            Exit::NotFound,
            ErrorCode::NoSignIn,
            format!("unknown sign-in `{}`", one_line(id, 40)),
        )
        .hint("`vik sign-ins` lists all sign-ins"),
        _ => failure,
    }
}

/// Sends a request to a daemon that serves the dashboard.
fn ask<T>(workflow: &Path, send: impl AsyncFnOnce(&Client) -> Result<T, ClientError>) -> Result<T, Failure> {
    let (instance, info) = client::find(workflow)?;
    let no_daemon = || client::no_daemon(&info.workflow_path);
    let status = client::status(&instance, &info)?.ok_or_else(no_daemon)?;
    if status.api.is_none() {
        return Err(Failure::new(
            Exit::Failed,
            ErrorCode::NoDashboard,
            "no dashboard is available: HTTP is served on the control socket only; `vik run --port N` serves \
             it on TCP",
        ));
    }
    client::request(&instance, &info, send)?.ok_or_else(no_daemon)
}

fn text(page: &SignInsPage, now: Timestamp) -> String {
    if page.sign_ins.is_empty() {
        return "no browser is signed in\n".to_owned();
    }
    let rows: Vec<_> = page
        .sign_ins
        .iter()
        .map(|one| {
            [
                one.id.clone(),
                ago(one.created_at, now),
                ago(one.last_used_at, now),
                one.address.clone(),
                one_line(&one.user_agent, 60),
            ]
        })
        .collect();
    table(["ID", "SIGNED IN", "LAST USED", "ADDRESS", "BROWSER"], &rows)
}
