//! `vex sessions`: sessions that can be resumed.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;

use super::output;
use crate::config::Period;
use crate::events::ExitReason;
use crate::session::{SessionError, SessionId, SessionInfo, Store};

/// `vex sessions`
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// What to do; lists all sessions if absent.
    #[command(subcommand)]
    pub verb: Option<SessionsVerb>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The verbs of `vex sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsVerb {
    /// List all sessions, newest first
    List,
    /// Show one session
    Show {
        /// Session ID
        id: SessionId,
    },
    /// Remove old sessions; only lists them without --yes; a running session is never removed
    Prune {
        /// Minimum time since the last activity
        #[arg(long, value_name = "TIME", default_value = "30d")]
        older_than: Period,
        /// Remove the sessions that are listed
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Serialize)]
struct Row {
    session_id: String,
    title: String,
    cwd: String,
    model: String,
    provider: String,
    started_at: String,
    updated_at: String,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<String>,
}

impl From<SessionInfo> for Row {
    fn from(listed: SessionInfo) -> Self {
        Self {
            session_id: listed.head.id.to_string(),
            title: listed.title,
            cwd: listed.head.cwd,
            model: listed.head.model,
            provider: listed.head.provider,
            started_at: listed.started_at.to_string(),
            updated_at: listed.updated_at.to_string(),
            running: listed.running,
            ended: listed.ended,
            forked_from: listed.head.forked_from.map(|from| from.to_string()),
        }
    }
}

impl Row {
    fn state(&self) -> &str {
        match (&self.ended, self.running) {
            (_, true) => "running",
            (Some(ended), false) => ended,
            (None, false) => "cut off",
        }
    }
}

pub(super) fn run(args: &SessionsArgs) -> ExitReason {
    match &args.verb {
        None | Some(SessionsVerb::List) => list(args.json),
        Some(SessionsVerb::Show { id }) => show(*id, args.json),
        Some(SessionsVerb::Prune { older_than, yes }) => prune(*older_than, *yes, args.json),
    }
}

fn failed(error: &SessionError) -> ExitReason {
    output::fail(ExitReason::Failed, &output::with_source(error))
}

fn list(json: bool) -> ExitReason {
    match Store::of_user().and_then(|store| store.list()) {
        Ok(listed) => print(listed, json),
        Err(error) => failed(&error),
    }
}

fn print(listed: Vec<SessionInfo>, json: bool) -> ExitReason {
    let rows: Vec<Row> = listed.into_iter().map(Row::from).collect();
    if json {
        return output::print_json(&rows);
    }
    let cells = |row: &Row| {
        let title: String = row.title.chars().take(60).collect();
        vec![
            row.session_id.clone(),
            row.state().to_owned(),
            row.model.clone(),
            title,
        ]
    };
    output::print(&output::columns(&rows.iter().map(cells).collect::<Vec<_>>()))
}

/// Lists old sessions, and removes them if `yes` is set.
fn prune(older_than: Period, yes: bool, json: bool) -> ExitReason {
    let old = Store::of_user().and_then(|store| {
        let mut old = store.list()?;
        old.retain(|listed| {
            let age = Timestamp::now().duration_since(listed.updated_at);
            !listed.running && Duration::try_from(age).is_ok_and(|age| age > older_than.get())
        });
        if yes {
            for listed in &old {
                store.remove(listed.head.id)?;
            }
        }
        Ok(old)
    });
    let old = match old {
        Ok(old) => old,
        Err(error) => return failed(&error),
    };
    let count = old.len();
    let printed = print(old, json);
    if !json {
        let sessions = if count == 1 { "session" } else { "sessions" };
        output::warn(&match (count, yes) {
            (0, _) => format!("no session is older than {older_than}"),
            (_, true) => format!("removed {count} {sessions}"),
            (_, false) => format!("{count} {sessions} would be removed; confirm with --yes"),
        });
    }
    printed
}

fn show(id: SessionId, json: bool) -> ExitReason {
    let row: Row = match Store::of_user().and_then(|store| store.info(id)) {
        Ok(listed) => listed.into(),
        Err(error) => return failed(&error),
    };
    if json {
        return output::print_json(&row);
    }
    let mut rows = vec![
        ("session", row.session_id.as_str()),
        ("title", &row.title),
        ("state", row.state()),
        ("workspace", &row.cwd),
        ("model", &row.model),
        ("provider", &row.provider),
        ("started", &row.started_at),
        ("updated", &row.updated_at),
    ];
    rows.extend(row.forked_from.as_deref().map(|from| ("forked from", from)));
    let cells = |(name, value): (&str, &str)| vec![name.to_owned(), value.to_owned()];
    output::print(&output::columns(&rows.into_iter().map(cells).collect::<Vec<_>>()))
}
