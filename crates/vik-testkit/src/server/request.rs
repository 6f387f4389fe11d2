//! A client's request: its dialect, its conversation, and the tools that it offers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::http::HttpRequest;

/// The API of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Responses,
    Chat,
    Anthropic,
}

impl Dialect {
    /// Returns the dialect of a path.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/messages") {
            Some(Self::Anthropic)
        } else {
            None
        }
    }
}

/// A tool that the client offers.
#[derive(Clone, Debug)]
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    /// Whether it takes free text instead of JSON.
    pub(crate) freeform: bool,
    /// The properties of its schema.
    pub(crate) properties: BTreeMap<String, Value>,
}

/// A request for an answer of the model.
pub(crate) struct ModelRequest<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) http: &'a HttpRequest,
    pub(crate) body: Value,
    /// Codex's code mode: the only tool is JavaScript.
    pub(crate) code_mode: bool,
    pub(crate) offered: Vec<OfferedTool>,
}

impl<'a> ModelRequest<'a> {
    pub(crate) fn new(dialect: Dialect, http: &'a HttpRequest, body: Value) -> Self {
        let mut offered = tools_of(&body["tools"]);
        let mut code_mode = false;
        for item in body["input"].as_array().into_iter().flatten() {
            if item["type"] == "additional_tools" {
                code_mode = true;
                offered.extend(tools_of(&item["tools"]));
            }
        }
        code_mode |= offered.iter().any(|tool| tool.name == "exec" && tool.freeform);
        Self {
            dialect,
            http,
            body,
            code_mode,
            offered,
        }
    }

    pub(crate) fn streams(&self) -> bool {
        self.body["stream"] == true
    }

    pub(crate) fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or("unknown")
    }

    /// Returns whether it is one of Claude Code's own side requests (a title, a topic), which no
    /// script covers.
    pub(crate) fn is_side_call(&self) -> bool {
        let agent = self.http.headers.get("user-agent").map_or("", String::as_str);
        self.dialect == Dialect::Anthropic && agent.starts_with("claude-cli") && self.offered.is_empty()
    }

    /// Returns the texts of the user, oldest first, without tool results.
    pub(crate) fn user_texts(&self) -> Vec<String> {
        if let Some(text) = self.body["input"].as_str() {
            return vec![text.to_owned()];
        }
        let list = if self.dialect == Dialect::Responses {
            &self.body["input"]
        } else {
            &self.body["messages"]
        };
        let mut texts = Vec::new();
        for message in list
            .as_array()
            .into_iter()
            .flatten()
            .filter(|message| message["role"] == "user")
        {
            match &message["content"] {
                Value::String(text) => texts.push(text.clone()),
                Value::Array(parts) => {
                    let parts = parts
                        .iter()
                        .filter(|part| part["type"] == "text" || part["type"] == "input_text");
                    texts.extend(parts.filter_map(|part| part["text"].as_str().map(str::to_owned)));
                }
                _ => {}
            }
        }
        texts
    }

    /// Returns a path of a script. `$VIK_QUESTIONS` is the path that the latest prompt names before
    /// this variable.
    pub(crate) fn path(&self, path: &str) -> String {
        let named = || {
            let texts = self.user_texts();
            let mut before = texts
                .iter()
                .rev()
                .filter_map(|text| text.split_once("` (`$VIK_QUESTIONS`"));
            before.next()?.0.rsplit_once('`').map(|(_, path)| path.to_owned())
        };
        let named = (path == "$VIK_QUESTIONS").then(named).flatten();
        named.unwrap_or_else(|| path.to_owned())
    }

    /// Returns whether the model has not answered yet.
    pub(crate) fn is_fresh(&self) -> bool {
        let list = if self.dialect == Dialect::Responses {
            &self.body["input"]
        } else {
            &self.body["messages"]
        };
        !list.as_array().into_iter().flatten().any(|item| {
            item["role"] == "assistant"
                || item["type"] == "function_call"
                || item["type"] == "custom_tool_call"
        })
    }

    /// Returns the client's own conversation id.
    pub(crate) fn conversation(&self) -> Option<String> {
        let headers = [
            "x-claude-code-session-id",
            "session_id",
            "session-id",
            "conversation_id",
        ];
        let named = headers
            .iter()
            .find_map(|name| self.http.headers.get(*name).cloned());
        named
            .or_else(|| self.body["prompt_cache_key"].as_str().map(str::to_owned))
            .or_else(|| self.body["metadata"]["user_id"].as_str().map(str::to_owned))
    }

    /// Returns a hash that identifies the conversation of a client without ids.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.user_texts().first().hash(&mut hasher);
        hasher.finish()
    }
}

fn tools_of(list: &Value) -> Vec<OfferedTool> {
    let mut offered = Vec::new();
    for tool in list.as_array().into_iter().flatten() {
        // Chat Completions nests the function.
        let tool = if tool["function"].is_object() {
            &tool["function"]
        } else {
            tool
        };
        let Some(name) = tool["name"].as_str().or_else(|| tool["type"].as_str()) else {
            continue;
        };
        let schema = if tool["input_schema"].is_object() {
            &tool["input_schema"]
        } else {
            &tool["parameters"]
        };
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        offered.push(OfferedTool {
            name: name.to_owned(),
            freeform: tool["type"] == "custom",
            properties: properties.into_iter().collect(),
        });
    }
    offered
}
