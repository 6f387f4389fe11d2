//! `vik sign-ins`

use std::path::Path;

use jiff::Timestamp;
use vik_api::{Response, SignInsPage, Verb};
use vik_base::clock;
use vik_base::report::{ErrorCode, Exit, Failure, ago, one_line, table};

use super::args::{SignInsArgs, SignInsVerb};
use super::{CliResult, client, print, print_json};

/// Lists the browsers that are signed in to the dashboard, or signs them out.
pub fn run(workflow: &Path, args: &SignInsArgs) -> CliResult {
    match &args.verb {
        None => list(workflow, args.json),
        Some(SignInsVerb::Revoke { id, .. }) => revoke(workflow, id.clone()),
    }
}

fn list(workflow: &Path, json: bool) -> CliResult {
    match ask(workflow, Verb::SignIns)? {
        Response::SignIns(page) if json => print_json(&page),
        Response::SignIns(page) if page.sign_ins.is_empty() => print("no browser is signed in\n"),
        Response::SignIns(page) => print(&text(&page, clock::now())),
        other => return Err(unexpected(other)),
    }
    Ok(Exit::Done)
}

fn revoke(workflow: &Path, id: Option<String>) -> CliResult {
    let shown = id.as_deref().map(|id| one_line(id, 40));
    match ask(workflow, Verb::RevokeSignIn { id })? {
        Response::Done { count } => {
            let browsers = if count == 1 { "browser" } else { "browsers" };
            print(&format!("{count} {browsers} signed out\n"));
            Ok(Exit::Done)
        }
        Response::NotFound => Err(Failure::new(
            Exit::NotFound,
            ErrorCode::NoSignIn,
            format!("unknown sign-in `{}`", shown.unwrap_or_default()),
        )
        .hint("`vik sign-ins` lists all sign-ins")),
        other => Err(unexpected(other)),
    }
}

fn ask(workflow: &Path, verb: Verb) -> Result<Response, Failure> {
    let (instance, info) = client::find(workflow)?;
    client::request(&instance, &info, verb)?.ok_or_else(|| client::no_daemon(&info.workflow_path))
}

fn unexpected(response: Response) -> Failure {
    match response {
        Response::Nothing { why } => Failure::new(
            Exit::Failed,
            ErrorCode::NoDashboard,
            format!("no dashboard is available: {why}"),
        ),
        _ => client::unexpected_response(),
    }
}

fn text(page: &SignInsPage, now: Timestamp) -> String {
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
