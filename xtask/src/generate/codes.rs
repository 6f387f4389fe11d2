//! The reference of error codes and kinds of decisions.

use std::fmt::Write;

use vik_base::report::ErrorCode;
use vik_core::decision_kind::DecisionKind;

pub fn markdown() -> String {
    let mut page = String::from(
        "# Codes\n\n<!-- Made by `cargo xtask generate` from the program. Do not edit. -->\n\n\
        Codes are stable: scripts can compare them. A later version may add codes.\n\n\
        ## Error codes\n\n\
        `error.code` of a command with `--json`, and `code` of an error of the HTTP API. The findings \
        in a workflow file have [codes of their own](workflow.md#diagnostics).\n\n\
        | code | meaning |\n| --- | --- |\n",
    );
    for code in ErrorCode::ALL {
        let _ = writeln!(page, "| `{code}` | {} |", code.meaning());
    }
    page.push_str(
        "\n## Kinds of decisions\n\n\
        `kind` of the decisions in `vik explain --json` and in the HTTP API. `vik show` prints it with \
        blanks for underscores.\n\n\
        | kind | when it is decided |\n| --- | --- |\n",
    );
    for kind in DecisionKind::ALL {
        let _ = writeln!(page, "| `{}` | {} |", kind.as_str(), kind.meaning());
    }
    page
}
