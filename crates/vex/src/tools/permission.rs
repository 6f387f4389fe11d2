//! The permission profiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definition::Need;
use super::output::Refusal;

/// The permission profile of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Read files only: no writes, no commands
    ReadOnly,
    /// Edit files in the workspace, and run commands
    #[default]
    WorkspaceWrite,
    /// Like workspace-write, and read and write files anywhere
    Full,
}

impl Permission {
    /// Returns the name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Full => "full",
        }
    }

    /// Returns whether it covers this need.
    pub fn allows(self, need: Need) -> bool {
        match need {
            Need::Read => true,
            Need::Write | Need::Execute => self != Self::ReadOnly,
            Need::Http => self == Self::Full,
            Need::Server => false,
        }
    }

    /// Returns the refusal of a need that it does not cover.
    pub(crate) fn refusal(self, tool: &str, need: Need) -> Refusal {
        let (verb, instead) = match need {
            Need::Server => {
                return Refusal::new("permission", format!("no rule allows {tool}")).instead(format!(
                    "do without it, and say what could not be done; the user can allow it with --allow '{tool}'"
                ));
            }
            Need::Read => ("read", None),
            Need::Write => (
                "write files",
                Some("look at files, and say what should be changed"),
            ),
            Need::Execute => (
                "run commands",
                Some("look with the other tools, and say what should be run"),
            ),
            Need::Http => ("use the network", Some("work with what is in the workspace")),
        };
        let refusal = Refusal::new(
            "permission",
            format!("the permission is {}: {tool} may not {verb}", self.as_str()),
        );
        match instead {
            Some(instead) => refusal.instead(instead),
            None => refusal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_profile_covers_its_needs() {
        let covered = |permission: Permission| {
            [Need::Read, Need::Write, Need::Execute, Need::Http].map(|need| permission.allows(need))
        };
        assert_eq!(covered(Permission::ReadOnly), [true, false, false, false]);
        assert_eq!(covered(Permission::WorkspaceWrite), [true, true, true, false]);
        assert_eq!(covered(Permission::Full), [true; 4]);
    }
}
