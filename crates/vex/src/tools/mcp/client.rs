//! The protocol, by `rmcp`. No other module knows its types.

mod discovery;
mod mending;
mod messages;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ContentBlock,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, PaginatedRequestParams,
    ProtocolVersion, ResourceContents, SubscriptionFilter, Tool,
};
use rmcp::service::{ClientCacheConfig, ClientInitializeError, ClientServiceExt, ServiceError};
use rmcp::service::{ClientLifecycleMode, RequestContext, RunningService};
use rmcp::transport::IntoTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::SetOnce;
use tokio::time::timeout;

use self::discovery::CheckedDiscovery;
use self::mending::MendedResults;
use self::messages::CheckedMessages;
use super::pipes::quoted;
use super::schema::MAX_SCHEMA;
use crate::net::plain_client;
use crate::redact::redact;
use crate::skills::text::one_line;

/// The maximum number of tools of a server.
const MAX_TOOLS: usize = 128;
/// How much of an error page is shown, in bytes.
const MAX_ERROR: usize = 1000;
/// How long a server may take to accept a subscription.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of pages of a list of tools.
const MAX_PAGES: usize = 32;

/// The maximum length of a name, in bytes: enough to show it, more than can be used.
const MAX_NAME: usize = 128;
/// The maximum length of a description of a tool, in bytes.
const MAX_DESCRIPTION: usize = 1024;

/// What is shown of content that cannot be read.
const UNKNOWN_CONTENT: &str = "[content of an unknown kind: not shown]";

/// A tool as a server describes it, cut to what can be used: lists of megabytes are not kept.
#[derive(Clone, Debug)]
pub(super) struct RemoteTool {
    pub(super) name: String,
    pub(super) description: String,
    /// Absent if it is longer than [`MAX_SCHEMA`].
    pub(super) schema: Option<Value>,
    /// Changes with every part of the definition that a model or a person sees.
    pub(super) fingerprint: [u8; 32],
}

/// The tools of a server.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    pub(super) tools: Vec<RemoteTool>,
    /// Why the list is not complete.
    pub(super) cut: Option<String>,
}

/// The answer to a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// The connection ended, or the request could not be sent; with the reason, if it is known.
    Closed(Option<String>),
    /// The server refused the call, for this reason.
    Refused(String),
    /// Its answer makes no sense; the reason is not text of the server.
    Invalid(String),
}

/// Why a server cannot be used; the texts are for people.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// The connection ended: why it did explains the error better.
    #[error("{0}")]
    Closed(String),
    /// It answers, but not as it must, or cannot be reached.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for OpenError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// What a server did beside answering.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Whether its list of tools changed since this was last cleared.
    pub(super) tools_changed: AtomicBool,
    /// Whether it asked for something that is always declined.
    pub(super) declined: AtomicBool,
    /// Why vex closed the connection.
    pub(super) fault: SetOnce<&'static str>,
}

/// The protocol on one connection, until it is closed.
pub(super) struct Client {
    service: RunningService<RoleClient, Handler>,
    /// The version of the protocol and the name of the server, for people.
    pub(super) description: String,
}

struct Handler(Arc<Notices>);

impl Handler {
    fn decline(&self) {
        self.0.declined.store(true, Ordering::Relaxed);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // Without capabilities: nobody answers questions, and no model or folder is offered.
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("vex", crate::VERSION),
        )
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.decline();
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    #[allow(
        deprecated,
        reason = "servers of earlier versions of the protocol still ask for it"
    )]
    async fn create_message(
        &self,
        _: rmcp::model::CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::CreateMessageResult, ErrorData> {
        self.decline();
        Err(declined("sampling"))
    }

    #[allow(
        deprecated,
        reason = "servers of earlier versions of the protocol still ask for it"
    )]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        self.decline();
        Err(declined("roots"))
    }
}

fn declined(feature: &str) -> ErrorData {
    ErrorData::invalid_request(format!("this client offers no {feature}"), None)
}

impl Client {
    /// Agrees with a server on the protocol: by `server/discover`, and if the server does not know
    /// it by `initialize`.
    ///
    /// # Errors
    /// With the reason for people.
    pub(super) async fn connect<R, W>(read: R, write: W, notices: Arc<Notices>) -> Result<Self, OpenError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self::agree((read, write), notices).await
    }

    /// Like [`Client::connect`], with a server that is reached by streamable HTTP. Its messages are
    /// at most `max_message` bytes long.
    ///
    /// # Errors
    /// With the reason for people.
    pub(super) async fn connect_http(
        url: &str,
        headers: &BTreeMap<String, String>,
        max_message: usize,
        notices: Arc<Notices>,
    ) -> Result<Self, OpenError> {
        let address = reqwest::Url::parse(url).map_err(|error| format!("url: {error}"))?;
        if !matches!(address.scheme(), "http" | "https") {
            return Err("url: only http and https addresses can be used".to_owned().into());
        }
        let client = plain_client(address.scheme() == "https")
            .build()
            .map_err(|error| error.to_string())?;
        let mut custom = HashMap::new();
        for (name, value) in headers {
            let wrong = |error: &dyn std::fmt::Display| format!("headers.{name}: {error}");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(&error))?;
            let mut value = HeaderValue::from_str(value).map_err(|error| wrong(&error))?;
            value.set_sensitive(true);
            custom.insert(header, value);
        }
        let config = StreamableHttpClientTransportConfig::with_uri(url)
            .custom_headers(custom)
            .max_sse_event_size(max_message)
            .max_json_response_size(max_message)
            .max_error_response_size(MAX_ERROR);
        Self::agree(
            StreamableHttpClientTransport::with_client(client, config),
            notices,
        )
        .await
    }

    async fn agree<T, E, A>(transport: T, notices: Arc<Notices>) -> Result<Self, OpenError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let transport = CheckedMessages::new(transport.into_transport(), Arc::clone(&notices));
        let transport = CheckedDiscovery::new(MendedResults(transport));
        let service = Handler(Arc::clone(&notices))
            .serve_with_lifecycle(transport, mode)
            .await
            .map_err(startup_error)?;
        service
            .set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        let info = service.peer_info();
        if let Some(version) = info.as_ref().map(|info| &info.protocol_version)
            && !ProtocolVersion::KNOWN_VERSIONS.contains(version)
        {
            let version = quoted(version.as_str());
            return Err(format!("it speaks an unknown version of the protocol: {version}").into());
        }
        let description = match info {
            Some(info) => {
                let server = info.server_info.as_ref();
                let server = server.map(|server| format!(", {} {}", server.name, server.version));
                format!("protocol {}{}", info.protocol_version, server.unwrap_or_default())
            }
            None => "unknown protocol".to_owned(),
        };
        let description = one_line(&redact(&description), MAX_NAME);
        let client = Self { service, description };
        client.subscribe_to_tools().await;
        Ok(client)
    }

    /// Asks for the notification of changed tools, which servers without `initialize` send only
    /// then.
    async fn subscribe_to_tools(&self) {
        let info = self.service.peer_info();
        let wanted = info.is_some_and(|info| {
            let tools = info.capabilities.tools.as_ref();
            !info.protocol_version.has_initialize()
                && tools.is_some_and(|tools| tools.list_changed == Some(true))
        });
        if !wanted {
            return;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        // A server that refuses it cannot change its tools unnoticed: a restart lists them again.
        let listening = timeout(LISTEN_TIMEOUT, self.service.listen(filter)).await;
        if let Ok(Ok(mut subscription)) = listening {
            // Each one was noted when it was received. Dropping the subscription would end it.
            tokio::spawn(async move { while let Ok(Some(_)) = subscription.next().await {} });
        }
    }

    /// Lists the tools, a bounded number of them.
    ///
    /// # Errors
    /// With the reason for people.
    pub(super) async fn tools(&self) -> Result<ToolList, OpenError> {
        let mut list = ToolList::default();
        let mut cursors: Vec<String> = Vec::new();
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursors.last().cloned());
            let page = self.service.list_tools(Some(params)).await;
            let page = page.map_err(list_error)?;
            for tool in page.tools.into_iter().map(remote_tool) {
                let is_known = |known: &RemoteTool| known.fingerprint == tool.fingerprint;
                if list.tools.iter().any(is_known) {
                    continue;
                }
                if list.tools.len() == MAX_TOOLS {
                    list.cut = Some(format!("only its first {MAX_TOOLS} tools are used"));
                    return Ok(list);
                }
                list.tools.push(tool);
            }
            match page.next_cursor.filter(|next| !next.is_empty()) {
                None => return Ok(list),
                Some(next) if cursors.contains(&next) => {
                    list.cut = Some("its list of tools repeats itself".to_owned());
                    return Ok(list);
                }
                Some(next) => cursors.push(next),
            }
        }
        list.cut = Some(format!(
            "only the first {MAX_PAGES} pages of its list of tools were read"
        ));
        Ok(list)
    }

    /// Calls a tool. Dropping the future cancels the call.
    ///
    /// # Errors
    /// If there is no answer.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Answer, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.service.call_tool(params).await {
            Ok(result) => Ok(answer(result)),
            Err(ServiceError::TransportClosed | ServiceError::Cancelled { .. }) => {
                Err(CallError::Closed(None))
            }
            Err(ServiceError::TransportSend(error)) => {
                Err(CallError::Closed(Some(quoted(&innermost(&*error.error)))))
            }
            Err(ServiceError::McpError(error)) => {
                Err(CallError::Refused(one_line(&redact(&error.message), MAX_ERROR)))
            }
            Err(error) => Err(CallError::Invalid(service_error(error))),
        }
    }

    /// Returns whether the connection is still open.
    pub(super) fn is_open(&self) -> bool {
        !self.service.is_transport_closed()
    }

    /// Closes the connection, and with it the input of the server.
    pub(super) async fn close(self) {
        let _ = self.service.cancel().await;
    }
}

/// Returns why a request has no result, without names of types: the message of the server, if it
/// sent one.
fn service_error(error: ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.into_owned(),
        ServiceError::TransportSend(error) => innermost(&*error.error),
        ServiceError::UnexpectedResponse => "its answer is not a result of the request".to_owned(),
        error => error.to_string(),
    }
}

/// Returns why the tools cannot be listed.
fn list_error(error: ServiceError) -> OpenError {
    let is_closed = matches!(
        error,
        ServiceError::TransportClosed | ServiceError::TransportSend(_) | ServiceError::Cancelled { .. }
    );
    let message = format!("it does not list its tools: {}", quoted(&service_error(error)));
    match is_closed {
        true => OpenError::Closed(message),
        false => OpenError::Refused(message),
    }
}

/// Returns why a connection cannot be opened, without names of types. Texts may contain anything
/// that the server sent.
fn startup_error(error: ClientInitializeError) -> OpenError {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            OpenError::Closed("it closed the connection".to_owned())
        }
        ClientInitializeError::TransportError { error, .. } => {
            OpenError::Closed(quoted(&innermost(&*error.error)))
        }
        ClientInitializeError::JsonRpcError(error) => OpenError::Refused(quoted(&error.message)),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => startup_error(*fallback),
        error => OpenError::Refused(quoted(&error.to_string())),
    }
}

/// Returns the innermost cause, which is the most specific one.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    loop {
        let http = innermost.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        innermost = match (http, innermost.source()) {
            // It does not name its source.
            (Some(StreamableHttpError::Client(source)), _) => source,
            (_, Some(source)) => source,
            (_, None) => return innermost.to_string(),
        };
    }
}

fn remote_tool(tool: Tool) -> RemoteTool {
    let mut schema = Value::Object(Arc::unwrap_or_clone(tool.input_schema));
    let kept = (schema.to_string().len() <= MAX_SCHEMA).then(|| schema.clone());
    // Some servers list the keys in another order each time.
    schema.sort_all_objects();
    let seen = json!([tool.name, tool.title, tool.description, tool.annotations]);
    let fingerprint = Sha256::new()
        .chain_update(seen.to_string())
        .chain_update(schema.to_string());
    RemoteTool {
        name: shortened(tool.name.into_owned(), MAX_NAME),
        description: shortened(tool.description.unwrap_or_default().into_owned(), MAX_DESCRIPTION),
        schema: kept,
        fingerprint: fingerprint.finalize().into(),
    }
}

/// Cuts a text to a number of bytes.
fn shortened(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes - '…'.len_utf8()));
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

/// Returns the result as text: what is not text is described in a line.
fn answer(result: CallToolResult) -> Answer {
    let mut parts: Vec<String> = result.content.into_iter().map(part).collect();
    // Servers repeat structured content as text, unless they send nothing else.
    if parts.is_empty()
        && let Some(value) = result.structured_content
    {
        parts.push(value.to_string());
    }
    Answer {
        text: parts.join("\n"),
        is_error: result.is_error == Some(true),
    }
}

fn part(content: ContentBlock) -> String {
    let bytes = |base64: &str| base64.len() / 4 * 3;
    match content {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => format!(
            "[image, {}, about {} bytes: not shown]",
            image.mime_type,
            bytes(&image.data)
        ),
        ContentBlock::Audio(audio) => format!(
            "[audio, {}, about {} bytes: not shown]",
            audio.mime_type,
            bytes(&audio.data)
        ),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents {
                uri, blob, mime_type, ..
            } => format!(
                "[resource {uri}, {}, about {} bytes: not shown]",
                mime_type.as_deref().unwrap_or("no text"),
                bytes(&blob)
            ),
            _ => "[resource of an unknown kind: not shown]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[link to the resource {} at {}]", link.name, link.uri),
        _ => UNKNOWN_CONTENT.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, schema: &str) -> RemoteTool {
        let text =
            format!(r#"{{"name": "{name}", "description": "{description}", "inputSchema": {schema}}}"#);
        remote_tool(serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn long_definitions_are_not_kept() {
        let long = "x".repeat(1 << 20);
        let tool = tool(&long, &long, &format!(r#"{{"type": "{long}"}}"#));
        assert_eq!(
            (tool.name.len(), tool.description.len()),
            (MAX_NAME, MAX_DESCRIPTION)
        );
        assert_eq!(tool.schema, None);
        assert!(tool.name.capacity() < 1024 && tool.description.capacity() < 2048);
    }

    #[test]
    fn fingerprint_depends_on_the_whole_definition_and_not_on_the_order_of_keys() {
        let print = |description: &str, schema: &str| tool("a", description, schema).fingerprint;
        let schema = r#"{"type": "object", "properties": {"a": {}, "b": {}}}"#;
        let reordered = r#"{"properties": {"b": {}, "a": {}}, "type": "object"}"#;
        assert_eq!(print("", schema), print("", reordered));
        assert_eq!(
            tool("a", "", reordered).schema.unwrap().to_string(),
            reordered.replace(' ', "")
        );
        assert_ne!(print("", schema), print("x", schema));
        let long = |end: &str| print(&format!("{}{end}", "x".repeat(5000)), schema);
        assert_ne!(long("a"), long("b"));
        assert_ne!(
            print("", schema),
            print("", r#"{"type": "object", "properties": {"a": {}, "c": {}}}"#)
        );
    }
}
