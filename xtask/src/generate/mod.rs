//! `cargo xtask generate`: the files under `docs/reference`, and the tables of the dashboard, that
//! are generated from the code.

mod cli;
mod codes;
mod json;
mod web;

use clap::Args;

use crate::repo::{self, TaskResult};

/// `cargo xtask generate`
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Do not write; fail if a file is not current
    #[arg(long)]
    check: bool,
}

/// A generated file: its path in the repository, and its content.
type Generated = (String, String);

fn all() -> Vec<Generated> {
    let workflow_schema = vik_workflow_reader::json_schema();
    let own = [
        (
            "docs/reference/workflow.md",
            vik_workflow_reader::reference_markdown(),
        ),
        (
            "docs/reference/workflow.schema.json",
            format!("{workflow_schema:#}\n"),
        ),
        (
            "docs/reference/outputs.schema.json",
            format!("{:#}\n", vik_core::outputs::json_schema()),
        ),
        (
            "docs/reference/tracker-protocol.schema.json",
            format!("{:#}\n", vik_tracker::protocol::json_schema()),
        ),
        ("docs/reference/cli.md", cli::markdown()),
        ("docs/reference/codes.md", codes::markdown()),
        ("crates/vik-control/src/web/event_kinds.js", web::event_kinds()),
        (
            "crates/vik-control/src/web/hidden_characters.js",
            web::hidden_characters(),
        ),
        (
            "docs/reference/openapi.json",
            format!("{:#}\n", vik_control::http::openapi()),
        ),
    ];
    let mut files: Vec<Generated> = own.map(|(path, text)| (path.to_owned(), text)).into();
    files.extend(json::schemas());
    files.extend(json::vex_schemas());
    files
}

pub fn run(args: &GenerateArgs) -> TaskResult {
    let mut stale = Vec::new();
    for (name, text) in all() {
        let path = repo::root().join(&name);
        if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        if args.check {
            stale.push(name);
        } else {
            repo::write(&path, &text)?;
            println!("wrote {name}");
        }
    }
    if stale.is_empty() {
        println!("generated files are current");
        return Ok(());
    }
    Err(format!(
        "not current: {}; run `cargo xtask generate`",
        stale.join(", ")
    ))
}
