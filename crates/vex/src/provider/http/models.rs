//! Lists the models of a provider, and probes one of them.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

use super::client::Client;
use super::fault::{ErrorBody, Failure, Fault, fault_of};
use super::{HttpProvider, HttpSettings, RetrySettings, block_on, runtime};
use crate::conversation::{Message, Turn};
use crate::interrupt::Interrupt;
use crate::provider::catalog::Endpoint;
use crate::provider::{Provider, ProviderError, Request};

/// The time limit for a list.
const LIST_TIME: Duration = Duration::from_secs(30);
/// The maximum number of suggested names for an unknown model.
const NEAREST: usize = 5;

/// A model as its provider lists it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ListedModel {
    pub name: String,
    /// The maximum tokens of a request and its answer together, if the provider reports them.
    pub context_window: Option<u64>,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    pub model: String,
    /// The duration of the whole answer.
    pub took: Duration,
    pub turn: Turn,
}

/// Requests the models of a provider, sorted by name.
///
/// # Errors
/// When it does not list them.
pub fn list_models(
    endpoint: Endpoint,
    ca_file: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Vec<ListedModel>, ProviderError> {
    let client = Client::new(endpoint, LIST_TIME, ca_file)?;
    let list = async {
        let listed = tokio::time::timeout(LIST_TIME, fetch(&client)).await;
        let too_long = || Failure::new(Fault::Stalled, format!("no list of models within {LIST_TIME:?}"));
        Ok(listed.unwrap_or_else(|_| Err(too_long()))?)
    };
    block_on(&runtime()?, interrupt, list)
}

/// Sends one small request, without a retry, and measures its time.
///
/// # Errors
/// When no answer came, with the same message as in a run.
pub fn probe(settings: HttpSettings, interrupt: &Interrupt) -> Result<Probe, ProviderError> {
    let mut settings = HttpSettings {
        fallback_model: None,
        retry: RetrySettings {
            max_tries: 1,
            ..RetrySettings::default()
        },
        ..settings
    };
    // The shortest answer that all providers allow.
    settings.model.max_output_tokens = Some(16);
    settings.model.thinking_budget = None;
    let mut provider = HttpProvider::new(settings)?;
    let request = Request {
        messages: &[Message::user("Answer with the word ok.")],
        ..Request::default()
    };
    let start = Instant::now();
    let turn = provider.turn(request, &mut |_| (), interrupt)?;
    Ok(Probe {
        model: provider.model().model.clone(),
        took: start.elapsed(),
        turn,
    })
}

pub(super) async fn fetch(client: &Client) -> Result<Vec<ListedModel>, Failure> {
    let name = &client.endpoint().name;
    let sent = client
        .request(Method::GET, client.endpoint().protocol.models_path())
        .send();
    let mut response = sent.await.map_err(|error| client.not_sent(&error))?;
    let status = response.status();
    let body = Client::body(&mut response).await;
    if !status.is_success() {
        let error_body = ErrorBody::read(&body);
        let fault = fault_of(Some(status.as_u16()), &error_body);
        let message = client.masked(&format!(
            "{name} answered {} {}",
            status.as_u16(),
            error_body.message
        ));
        return Err(Failure {
            status: Some(status.as_u16()),
            ..Failure::new(fault, message)
        });
    }
    read(&body).ok_or_else(|| {
        Failure::new(
            Fault::Malformed,
            format!("{name} did not answer with a list of models"),
        )
    })
}

/// Reads a list in any of the common forms.
fn read(body: &[u8]) -> Option<Vec<ListedModel>> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let list = json.get("data").or_else(|| json.get("models")).unwrap_or(&json);
    let mut models: Vec<ListedModel> = list
        .as_array()?
        .iter()
        .filter_map(|model| {
            let text = |key: &str| model.get(key).and_then(Value::as_str);
            let number = |at: &str| model.pointer(at).and_then(Value::as_u64);
            // The names of OpenRouter, Anthropic, vLLM and llama.cpp.
            let window = [
                "/context_length",
                "/max_input_tokens",
                "/max_model_len",
                "/meta/n_ctx",
            ];
            Some(ListedModel {
                name: text("id").or_else(|| text("name"))?.to_owned(),
                context_window: window.iter().find_map(|at| number(at)),
            })
        })
        .collect();
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models.dedup_by(|a, b| a.name == b.name);
    Some(models)
}

/// Returns the names most similar to a missing one; all of them if there are only a few.
pub(super) fn nearest<'a>(listed: &'a [ListedModel], wanted: &str) -> Vec<&'a str> {
    let near = |name: &str| strsim::jaro_winkler(&name.to_lowercase(), &wanted.to_lowercase());
    let mut names: Vec<(&str, f64)> = listed
        .iter()
        .map(|model| (model.name.as_str(), near(&model.name)))
        .collect();
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    names.into_iter().take(NEAREST).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(body: &str) -> Option<Vec<(String, Option<u64>)>> {
        let models = read(body.as_bytes())?.into_iter();
        Some(models.map(|model| (model.name, model.context_window)).collect())
    }

    #[test]
    fn model_lists_of_all_servers_are_read() {
        let some = |name: &str, window| Some(vec![(name.to_owned(), window)]);
        assert_eq!(
            names(r#"{"object":"list","data":[{"id":"a"},{"id":"a"}]}"#),
            some("a", None)
        );
        assert_eq!(
            names(r#"{"data":[{"id":"a","context_length":5}]}"#),
            some("a", Some(5))
        );
        assert_eq!(
            names(r#"{"data":[{"id":"a","meta":{"n_ctx":7}}]}"#),
            some("a", Some(7))
        );
        assert_eq!(names(r#"{"models":[{"name":"a"}]}"#), some("a", None));
        assert_eq!(names(r#"{"data":{}}"#), None);
        assert_eq!(names("<html>"), None);
    }

    #[test]
    fn nearest_model_names_come_first() {
        let listed: Vec<_> = ["gpt-5-mini", "claude-opus-5", "claude-sonnet-5-5", "x", "y", "z"]
            .map(|name| ListedModel {
                name: name.to_owned(),
                context_window: None,
            })
            .into();
        let near = nearest(&listed, "claude-sonet-5.5");
        assert_eq!((near.len(), near[0]), (NEAREST, "claude-sonnet-5-5"));
    }
}
