//! `vex sessions`: what can go on.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::output;
use crate::events::ExitReason;
use crate::session::{Listed, SessionError, SessionId, Store};

/// `vex sessions`
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// Which of them; all where nothing is said.
    #[command(subcommand)]
    pub verb: Option<SessionsVerb>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The verbs of `vex sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsVerb {
    /// All sessions, the latest first
    List,
    /// One session
    Show {
        /// Its id
        id: SessionId,
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

impl From<Listed> for Row {
    fn from(listed: Listed) -> Self {
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
    }
}

fn failed(error: &SessionError) -> ExitReason {
    output::fail(ExitReason::Failed, &output::with_source(error))
}

fn list(json: bool) -> ExitReason {
    let mut rows: Vec<Row> = match Store::of_user().and_then(|store| store.list()) {
        Ok(listed) => listed.into_iter().map(Row::from).collect(),
        Err(error) => return failed(&error),
    };
    rows.sort_by(|a, b| b.updated_at.cmp(&a.updated_at));
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

fn show(id: SessionId, json: bool) -> ExitReason {
    let row: Row = match Store::of_user().and_then(|store| store.look(id)) {
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
