//! Keeps the elements of a result that can be used if another one of them is malformed.

use std::future::Future;

use rmcp::RoleClient;
use rmcp::model::{ContentBlock, CustomResult, JsonRpcMessage, ServerResult, Tool};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::{Value, json};

use super::UNKNOWN_CONTENT;

/// A transport that replaces malformed tools and contents in results. `rmcp` recognizes a result
/// with one of them as none of its types, and passes it on as a [`CustomResult`].
pub(super) struct MendedResults<T>(pub(super) T);

impl<T: Transport<RoleClient>> Transport<RoleClient> for MendedResults<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.0.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut message = self.0.receive().await?;
        if let JsonRpcMessage::Response(response) = &mut message
            && let ServerResult::CustomResult(CustomResult(result)) = &mut response.result
            && let Ok(mended) = serde_json::from_value(mended(result.take()))
        {
            response.result = mended;
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.0.close().await
    }
}

fn mended(mut result: Value) -> Value {
    if let Some(Value::Array(tools)) = result.get_mut("tools") {
        for tool in tools
            .iter_mut()
            .filter(|tool| Tool::deserialize(&**tool).is_err())
        {
            *tool = mended_tool(tool);
        }
    }
    if let Some(Value::Array(contents)) = result.get_mut("content") {
        for content in contents {
            if ContentBlock::deserialize(&*content).is_err() {
                *content = json!({"type": "text", "text": UNKNOWN_CONTENT});
            }
        }
    }
    result
}

/// Returns a tool with the usable parts of this one. Without a name or a schema, it is left out
/// later, with a warning.
fn mended_tool(tool: &Value) -> Value {
    let schema = tool.get("inputSchema").filter(|schema| schema.is_object());
    json!({
        "name": tool["name"].as_str().unwrap_or_default(),
        "description": tool["description"].as_str(),
        "inputSchema": schema.cloned().unwrap_or_else(|| json!({})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_elements_do_not_spoil_the_others() {
        let schema = json!({"type": "object"});
        let good = json!({"name": "good", "inputSchema": schema, "outputSchema": {"type": "object"}});
        let result = json!({"nextCursor": "2", "tools": [
            good,
            {"name": "a", "description": "A.", "inputSchema": schema, "outputSchema": true},
            {"name": "b", "inputSchema": null},
            {"name": 5},
            "c",
        ]});
        let tool = |name: &str, description: Value, schema: Value| json!({"name": name, "description": description, "inputSchema": schema});
        let expected = json!({"nextCursor": "2", "tools": [
            good,
            tool("a", json!("A."), schema),
            tool("b", Value::Null, json!({})),
            tool("", Value::Null, json!({})),
            tool("", Value::Null, json!({})),
        ]});
        let mended = mended(result);
        assert_eq!(mended, expected);
        let read = serde_json::from_value::<ServerResult>(mended).unwrap();
        assert!(matches!(read, ServerResult::ListToolsResult(_)));
    }
}
