//! One request to a scripted server, with everything that was observed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vex::conversation::{Message, Turn};
use vex::interrupt::Interrupt;
use vex::provider::catalog::{self, Endpoint, ProviderConfig};
use vex::provider::http::{HttpProvider, HttpSettings, RetrySettings};
use vex::provider::protocol::{ModelSettings, Protocol};
use vex::provider::{Progress, Provider, ProviderError, Request};
use vex::tools::{Need, ToolDefinition};
use vik_testkit::server::ModelServer;

/// A key that must never appear.
pub const KEY: &str = "open-sesame-0123456789";

pub fn endpoint(protocol: Protocol, url: &str) -> Endpoint {
    let config = ProviderConfig {
        protocol: Some(protocol),
        base_url: Some(url.to_owned()),
        api_key_env: Some("SCRIPTED_KEY".to_owned()),
        ..ProviderConfig::default()
    };
    let configured = BTreeMap::from([("scripted".to_owned(), config)]);
    let env = |name: &str| (name == "SCRIPTED_KEY").then(|| KEY.to_owned());
    catalog::endpoint(Some("scripted"), None, &configured, &env).unwrap()
}

/// Waits are short here; deadlines are long, so that a busy machine changes nothing.
pub fn settings(protocol: Protocol, url: &str) -> HttpSettings {
    HttpSettings {
        retry: RetrySettings {
            max_tries: 4,
            first_wait_ms: 2,
            ..RetrySettings::default()
        },
        ..HttpSettings::new(endpoint(protocol, url), ModelSettings::new("claude-sonnet-4-5"))
    }
}

/// What was reported while an answer streamed.
#[derive(Debug, Default, PartialEq)]
pub struct Observed {
    pub text: String,
    pub thinking: String,
    pub delays: Vec<u64>,
    pub reasons: Vec<String>,
    pub fallback: Option<String>,
    pub empty: Vec<Turn>,
    /// How much of the answer had arrived at each report.
    pub received: Vec<usize>,
}

impl Observed {
    pub fn on_progress(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Text { text, .. } => self.text.push_str(text),
            Progress::Thinking { text, .. } => self.thinking.push_str(text),
            Progress::Received { bytes } => self.received.push(*bytes),
            Progress::Empty(turn) => self.empty.push((*turn).clone()),
            Progress::Retry {
                attempt,
                delay_ms,
                reason,
            } => {
                self.delays.push(*delay_ms);
                self.reasons.push((*reason).to_owned());
                assert_eq!(*attempt as usize, self.delays.len() + 1, "{reason}");
            }
            Progress::Fallback { model } => {
                self.delays.clear();
                self.fallback = Some((*model).to_owned());
            }
        }
    }
}

pub struct Asked {
    pub result: Result<Turn, ProviderError>,
    pub observed: Observed,
    pub server: ModelServer,
}

impl Asked {
    #[track_caller]
    pub fn turn(&self) -> &Turn {
        self.result.as_ref().unwrap()
    }

    /// Returns the error message and its class.
    #[track_caller]
    pub fn error(&self) -> (String, Option<String>) {
        let error = self.result.as_ref().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(KEY), "{shown}");
        let class = match error {
            ProviderError::Reported { class, .. } => class.clone(),
            ProviderError::Overflow(_) => Some("context".to_owned()),
            ProviderError::Empty(_) => Some("network".to_owned()),
            ProviderError::Config(_) => Some("usage".to_owned()),
            other => panic!("{other:?}"),
        };
        (error.to_string(), class)
    }

    /// Returns the number of requests to the server.
    pub fn requests(&self) -> usize {
        self.server.turns().len()
    }
}

fn tools() -> Vec<ToolDefinition> {
    let define = |name: &'static str, field: &'static str| ToolDefinition {
        name: name.into(),
        description: "".into(),
        need: Need::Read,
        aliases: &[],
        arguments: &[],
        input_schema: json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}),
    };
    vec![define("run_command", "command"), define("read_file", "path")]
}

pub fn ask(protocol: Protocol, script: Value) -> Asked {
    ask_with(protocol, script, |_| ())
}

/// Sends one request, with other settings.
pub fn ask_with(protocol: Protocol, script: Value, change: impl FnOnce(&mut HttpSettings)) -> Asked {
    let server = ModelServer::start_json(script).unwrap();
    let mut settings = settings(protocol, &server.url());
    change(&mut settings);
    let mut provider = HttpProvider::new(settings).unwrap();
    let mut observed = Observed::default();
    let messages = [Message::user("go")];
    let tools = tools();
    let request = Request {
        system: "be good",
        messages: &messages,
        tools: &tools,
        output_schema: None,
        temperature: None,
    };
    let result = provider.turn(
        request,
        &mut |progress| observed.on_progress(&progress),
        &Interrupt::new(),
    );
    Asked {
        result,
        observed,
        server,
    }
}
