//! The tables of the dashboard.

use std::fmt::Write;

use vik_core::event::EventKind;
use vik_core::visible::javascript_pattern;

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

/// Returns the module with the characters that hide or reorder text.
pub fn hidden_characters() -> String {
    format!(
        "{HEADER}/** Matches a character that is invisible, or that reorders its surroundings. */\n\
        export const HIDDEN =\n  /{}/u;\n",
        javascript_pattern()
    )
}
