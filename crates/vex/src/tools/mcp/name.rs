//! The names of a server's tools: `mcp.SERVER.TOOL` in rules, events, approvals and hooks,
//! `mcp__SERVER__TOOL` in requests to the model.

use tool_call_repair::tool_name;

/// The maximum length of a name in a request, in bytes; providers accept no longer one.
const MAX_MODEL_NAME: usize = 64;
/// The maximum length of the name of a server, in bytes.
const MAX_SERVER_NAME: usize = 32;

/// Checks the name of a server in the settings. It has no `.`, so that the names of tools in rules
/// are those of one server; a model could still take the tools of `git-hub` and `git_hub` for each
/// other.
///
/// # Errors
/// With the rule that it breaks.
pub(crate) fn check_server_name(name: &str) -> Result<(), &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > MAX_SERVER_NAME || !name.bytes().all(plain) {
        return Err("the name of a server has 1 to 32 letters, digits, `-` or `_`");
    }
    if name.starts_with('_') || name.ends_with('_') || name.contains("__") {
        return Err("the name of a server neither starts nor ends with `_`, and contains no `__`");
    }
    Ok(())
}

/// The names of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolNames {
    /// The name in rules, events, approvals and hooks.
    pub(super) rule: String,
    /// The name in requests to the model.
    pub(super) model: String,
}

impl ToolNames {
    /// Creates the names of a tool of a server.
    ///
    /// # Errors
    /// If the tool cannot have such names; the text is the reason.
    pub(super) fn new(server: &str, tool: &str) -> Result<Self, &'static str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let allowed = |c: char| plain(c) || matches!(c, '.' | '/');
        if tool.is_empty() || !tool.chars().all(allowed) {
            return Err("its name contains other characters than letters, digits, `_`, `-`, `.` and `/`");
        }
        let safe: String = tool.chars().map(|c| if plain(c) { c } else { '_' }).collect();
        let model = format!("mcp__{server}__{safe}");
        if model.len() > MAX_MODEL_NAME {
            return Err("its name is too long");
        }
        Ok(Self {
            rule: format!("mcp.{server}.{tool}"),
            model,
        })
    }

    /// Returns whether a model could take one for the other, which has this name in requests.
    pub(super) fn collides_with(&self, other_model: &str) -> bool {
        tool_name(&self.model) == tool_name(other_model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_server_and_one_tool() {
        let names = ToolNames::new("tickets", "issues/get.one").unwrap();
        assert_eq!(names.rule, "mcp.tickets.issues/get.one");
        assert_eq!(names.model, "mcp__tickets__issues_get_one");
        let similar =
            ["issues/get_one", "issues_getOne"].map(|tool| ToolNames::new("tickets", tool).unwrap());
        assert!(similar.iter().all(|other| names.collides_with(&other.model)));
        assert!(!names.collides_with("mcp__ticket__s__issues_get_one"));
        for tool in ["", "a b", "a\u{202e}b", "é", "a(b)", "a*", &"a".repeat(60)] {
            assert!(ToolNames::new("tickets", tool).is_err(), "{tool:?}");
        }
    }

    #[test]
    fn server_names_are_plain() {
        for name in ["a", "git-hub", "a_b", "X9"] {
            assert_eq!(check_server_name(name), Ok(()), "{name}");
        }
        for name in ["", "_a", "a_", "a__b", "a.b", "a b", "a*", &"a".repeat(33)] {
            assert!(check_server_name(name).is_err(), "{name:?}");
        }
    }
}
