//! The differences between two versions of a workflow, by the keys of the file and without possible
//! secrets.
//!
//! The serialised models are compared. A new key needs a row in the tables of `leaves` only if its
//! name in the file differs from that in the model, or if it is a text of the user.

mod leaves;
mod settings;

use std::fmt;

use serde::Serialize;

use super::{Webhooks, Workflow};
pub use settings::{Setting, settings};

use leaves::{Leaf, Leaves, Shown, section_rank};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The key of the file, such as `issue.stages.plan.timeout`, or the name of a prompt file.
    pub path: String,
    #[serde(flatten)]
    pub kind: EditKind,
    /// Whether a running daemon keeps the old value until it is restarted.
    pub needs_restart: bool,
}

/// How a value changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EditKind {
    Value {
        from: String,
        to: String,
    },
    /// The text changed. The text itself is omitted, because a command may contain a secret.
    Text {
        /// The former number of lines; 0 if there was no text.
        from_lines: usize,
        /// The new number of lines; 0 if there is no text.
        to_lines: usize,
    },
    /// The value changed and is omitted.
    Hidden,
    /// The key was added.
    Added,
    /// The key was removed.
    Removed,
}
impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match &self.kind {
            EditKind::Value { from, to } => write!(f, "{from} -> {to}")?,
            EditKind::Text {
                from_lines: 0,
                to_lines,
            } => write!(f, "added ({})", lines(*to_lines))?,
            EditKind::Text { to_lines: 0, .. } | EditKind::Removed => f.write_str("removed")?,
            EditKind::Text { from_lines, to_lines } => {
                write!(f, "changed ({from_lines} -> {})", lines(*to_lines))?;
            }
            EditKind::Hidden => f.write_str("changed")?,
            EditKind::Added => f.write_str("added")?,
        }
        if self.needs_restart {
            f.write_str(" (needs a restart)")?;
        }
        Ok(())
    }
}

fn lines(count: usize) -> String {
    format!("{count} line{}", if count == 1 { "" } else { "s" })
}

impl Edit {
    /// Returns the edit of a text, such as a prompt file.
    pub fn of_text(path: impl Into<String>, from: &str, to: &str) -> Self {
        Self {
            path: path.into(),
            kind: EditKind::Text {
                from_lines: from.lines().count(),
                to_lines: to.lines().count(),
            },
            needs_restart: false,
        }
    }
}

/// Returns the differences; empty exactly if both are equal.
pub fn edits(old: &Workflow, new: &Workflow) -> Vec<Edit> {
    let (old, new) = (Leaves::of(old), Leaves::of(new));
    let mut edits = Vec::new();
    for leaf in &new.all {
        let before = old.get(&leaf.path);
        if before.is_none_or(|before| before.value != leaf.value) {
            edits.extend(edit(leaf, before.map(Leaf::shown), Some(leaf.shown()), &old));
        }
    }
    for leaf in old.all.iter().filter(|leaf| new.get(&leaf.path).is_none()) {
        edits.extend(edit(leaf, Some(leaf.shown()), None, &new));
    }
    edits.sort_by_key(|edit| section_rank(&edit.path));
    edits.dedup_by(|one, other| one.path == other.path);
    edits
}

/// Returns the edit of one value; `other` is the workflow without it, if it was added or removed.
fn edit(leaf: &Leaf, from: Option<Shown>, to: Option<Shown>, other: &Leaves) -> Option<Edit> {
    let is_removed = to.is_none();
    if let Some(section) = leaf.section.as_ref().filter(|section| !other.has(section)) {
        return Some(Edit {
            path: section.clone(),
            kind: if is_removed {
                EditKind::Removed
            } else {
                EditKind::Added
            },
            needs_restart: false,
        });
    }
    // A section takes the place of null, or null that of a section: the keys inside are the edits.
    if leaf.value.is_null() && (is_removed || from.is_none()) {
        return None;
    }
    let kind = match (from, to) {
        (Some(Shown::As(from)), Some(Shown::As(to))) => EditKind::Value { from, to },
        (Some(Shown::Lines(from_lines)), Some(Shown::Lines(to_lines))) => {
            EditKind::Text { from_lines, to_lines }
        }
        (None, Some(Shown::Lines(to_lines))) => EditKind::Text {
            from_lines: 0,
            to_lines,
        },
        (Some(Shown::Lines(from_lines)), None) => EditKind::Text {
            from_lines,
            to_lines: 0,
        },
        (None, _) => EditKind::Added,
        (_, None) => EditKind::Removed,
        _ => EditKind::Hidden,
    };
    Some(Edit {
        path: leaf.key(),
        kind,
        needs_restart: leaf.needs_restart(),
    })
}

/// Returns the edited workflow as a running daemon can apply it: values that need a restart
/// (`RESTART`) are kept.
pub fn applied(running: &Workflow, edited: Workflow) -> Workflow {
    Workflow {
        workspace_root: running.workspace_root.clone(),
        retention_days: running.retention_days,
        log_format: running.log_format,
        engine: running.engine.clone(),
        http: running.http.clone(),
        webhooks: Webhooks {
            listen: running.webhooks.listen,
            ..edited.webhooks
        },
        ..edited
    }
}
