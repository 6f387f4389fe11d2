//! The JSON Schemas of the `--json` outputs, from the wire types.

use schemars::{JsonSchema, schema_for};
use serde_json::json;

use super::Generated;

pub fn schemas() -> Vec<Generated> {
    let schemas = [
        ("status", schema::<vik_api::Status>("vik status --json")),
        ("runs", schema::<Vec<vik_api::RunView>>("vik runs --json")),
        ("report", schema::<vik_api::ReportView>("vik report --json")),
        ("explain", schema::<vik_api::Explained>("vik explain --json")),
        (
            "notification",
            schema::<vik_api::Notification>("what a notifier is sent"),
        ),
        ("schedule", schema::<vik_api::ScheduleView>("vik schedule --json")),
        ("sign-ins", schema::<vik_api::SignInsPage>("vik sign-ins --json")),
        ("takeover", schema::<vik_api::TakeoverView>("vik takeover --json")),
        ("handback", schema::<vik_api::HandbackView>("vik handback --json")),
        (
            "trace-log",
            schema::<Vec<vik_api::TraceEntry>>("vik trace log --json"),
        ),
        (
            "trace-blame",
            schema::<vik_api::BlameView>("vik trace blame --json"),
        ),
        (
            "trace-verify",
            schema::<vik_api::TraceCheck>("vik trace verify --json"),
        ),
        (
            "trace-map",
            schema::<Vec<vik_api::IntentView>>("vik trace map --json"),
        ),
        (
            "tracker-test",
            schema::<vik_tracker::conformance::Report>("vik tracker test --json"),
        ),
        (
            "worker-install",
            schema::<vik_api::WorkerInstallation>("vik worker install --json"),
        ),
        (
            "error",
            schema::<vik_api::ErrorBody>("`error` in every failed --json"),
        ),
    ];
    let path = |name| format!("docs/reference/{name}.schema.json");
    schemas.map(|(name, text)| (path(name), text)).into()
}

/// Returns the schemas of a line of `vex exec --json` and of vex's settings, which editors use.
pub fn vex_schemas() -> Vec<Generated> {
    let events = vex::events::json_schema();
    let config = schema::<vex::config::Settings>("config.toml of vex");
    vec![
        (
            "docs/reference/vex-events.schema.json".to_owned(),
            format!("{events:#}\n"),
        ),
        ("docs/reference/vex-config.schema.json".to_owned(), config),
    ]
}

fn schema<T: JsonSchema>(title: &str) -> String {
    let mut schema = schema_for!(T);
    schema.insert("title".to_owned(), json!(title));
    format!("{:#}\n", schema.to_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_name_the_fields_of_the_contract() {
        let schemas = schemas();
        for (file, fields) in [
            (
                "status",
                [
                    "schema",
                    "last_pull",
                    "sessions",
                    "parked",
                    "waiting",
                    "workflow_path",
                ]
                .as_slice(),
            ),
            (
                "runs",
                &["run_id", "failure_class", "session_id", "attempts", "log"],
            ),
            (
                "explain",
                &["issue_id", "stages", "hold", "until", "decisions", "runs", "life"],
            ),
            (
                "report",
                &[
                    "total",
                    "cost_per_succeeded_issue_usd",
                    "stages",
                    "agents",
                    "series",
                    "spent",
                ],
            ),
            ("error", &["code", "message", "hint"]),
        ] {
            let (_, text) = schemas
                .iter()
                .find(|(name, _)| name.ends_with(&format!("{file}.schema.json")))
                .unwrap();
            for field in fields {
                assert!(text.contains(&format!("\"{field}\": {{")), "{file}: {field}");
            }
        }
    }
}
