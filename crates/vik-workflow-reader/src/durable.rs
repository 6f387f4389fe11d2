//! `workspace.durable`: `true`, `false` or a map.

use schemars::{Schema, SchemaGenerator};
use serde_json::json;
use vik_core::workflow::DurableWorkspace;
use vik_yaml::{Diagnostic, Kind, Node};

use super::check::Check;
use super::decode::{Cx, Decode, Section as _};
use super::file;
use super::section::section;
use super::values::Text;

section! {
    /// Where the work of workspaces is saved.
    struct DurableKeys: strict;
    /// The name of a git remote that `after_create` sets up. Default: `origin`, else the only one.
    "remote" remote: optional Text;
    instead {
        "url" => "set up a remote in `issue.hooks.after_create`, and name it in `remote`",
    }
}

/// `workspace.durable`: `true`, `false` or a map with the remote.
pub(crate) struct Durable;

impl Decode for Durable {
    type Value = Option<DurableWorkspace>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self::Value> {
        Some(match &node.kind {
            Kind::Scalar(_) => bool::decode(node, cx)?.then(DurableWorkspace::default),
            _ => Some(DurableWorkspace {
                remote: DurableKeys::read(Some(node), cx).remote,
            }),
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = DurableKeys::schema(generator);
        schema.insert("type".to_owned(), json!(["object", "boolean"]));
        schema
    }
}

impl Check<'_> {
    /// Checks that durable workspaces have a repository.
    pub(super) fn durable(&mut self, file: &file::File) {
        if file.workspace.durable.as_ref().and_then(Option::as_ref).is_none() {
            return;
        }
        if file.issue.hooks.after_create.is_none() {
            self.report_at_key(
                Diagnostic::error(
                    "durable_workspace",
                    "workspace.durable",
                    "a durable workspace needs a git repository with a remote",
                )
                .hint("clone one in `issue.hooks.after_create`"),
            );
        }
    }
}
