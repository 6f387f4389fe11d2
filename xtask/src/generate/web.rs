//! The tables of the dashboard.

use std::fmt::Write;

use vik_core::event::EventKind;

const HEADER: &str = "// Made by `cargo xtask generate` from the program. Do not edit.\n\n";

/// Returns the module with the kinds of events.
pub fn event_kinds() -> String {
    let mut module =
        format!("{HEADER}/** The label of each kind of event. */\nexport const EVENT_LABELS = {{\n");
    for kind in EventKind::ALL {
        let _ = writeln!(module, "  {}: \"{}\",", kind.as_str(), kind.label());
    }
    module.push_str("};\n");
    module
}
