//! Providers over HTTP: one request with its retries and deadlines gives one turn.
//!
//! A current-thread runtime exists only here; it runs only while an answer is awaited.

mod client;
mod failures;
pub mod fault;
mod models;
mod pieces;
pub mod retry;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use self::client::Client;
use self::fault::{Failure, Fault};
use self::pieces::Pieces;
use self::retry::{Decision, Tries};
use super::catalog::Endpoint;
use super::prices::{self, Facts, ModelConfig};
use super::protocol::{ModelSettings, ToolCalls};
use super::stream::{AnswerReader, StreamError};
use super::{ModelInfo, Progress, Provider, ProviderError, Request};
use crate::conversation::Turn;
use crate::interrupt::Interrupt;
use crate::net::until_interrupted;

pub use client::Deadlines;
pub use models::{ListedModel, Probe, list_models, probe};
pub use retry::RetrySettings;

/// The setup of a provider over HTTP.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    pub endpoint: Endpoint,
    /// What each request specifies about the model.
    pub model: ModelSettings,
    /// The model that answers when the first one fails.
    pub fallback_model: Option<String>,
    /// Models in the settings.
    pub models: BTreeMap<String, ModelConfig>,
    pub deadlines: Deadlines,
    pub retry: RetrySettings,
    /// Certificates to trust in addition to those of the system.
    pub ca_file: Option<PathBuf>,
}

impl HttpSettings {
    /// Creates the default setup for a model of a provider.
    pub fn new(endpoint: Endpoint, model: ModelSettings) -> Self {
        Self {
            endpoint,
            model,
            fallback_model: None,
            models: BTreeMap::new(),
            deadlines: Deadlines::default(),
            retry: RetrySettings::default(),
            ca_file: None,
        }
    }
}

/// A provider over HTTP.
pub struct HttpProvider {
    runtime: Runtime,
    runner: RequestRunner,
}

/// All state except the runtime, which is borrowed while it runs.
struct RequestRunner {
    client: Client,
    model: ModelSettings,
    fallback_model: Option<String>,
    models: BTreeMap<String, ModelConfig>,
    deadlines: Deadlines,
    retry: RetrySettings,
    facts: Facts,
    info: ModelInfo,
    has_sent_request: bool,
}

impl HttpProvider {
    /// Creates the provider without sending a request.
    ///
    /// # Errors
    /// When the settings are invalid.
    pub fn new(settings: HttpSettings) -> Result<Self, ProviderError> {
        let connect = Duration::from_millis(settings.deadlines.connect_ms);
        let client = Client::new(settings.endpoint, connect, settings.ca_file.as_deref())?;
        let mut runner = RequestRunner {
            client,
            fallback_model: settings.fallback_model,
            models: settings.models,
            deadlines: settings.deadlines,
            retry: settings.retry,
            facts: Facts::default(),
            info: ModelInfo::default(),
            model: settings.model,
            has_sent_request: false,
        };
        runner.load_model_info();
        Ok(Self {
            runtime: runtime()?,
            runner,
        })
    }
}

impl Provider for HttpProvider {
    fn turn(
        &mut self,
        request: Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
        interrupt: &Interrupt,
    ) -> Result<Turn, ProviderError> {
        let answer = self.runner.answer(&request, progress);
        block_on(&self.runtime, interrupt, answer)
    }

    fn set_tool_calls(&mut self, form: ToolCalls) {
        self.runner.model.tool_calls = form;
        self.runner.info.tool_calls = form;
    }

    fn model(&self) -> &ModelInfo {
        &self.runner.info
    }
}

fn runtime() -> Result<Runtime, ProviderError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| ProviderError::Config(format!("cannot start the network runtime: {error}")))
}

/// Runs a future until it ends or the interrupt is set.
fn block_on<T>(
    runtime: &Runtime,
    interrupt: &Interrupt,
    work: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    until_interrupted(runtime, interrupt, work).unwrap_or(Err(ProviderError::Interrupted))
}

impl RequestRunner {
    /// Looks up the facts about the current model.
    fn load_model_info(&mut self) {
        self.facts = prices::facts(&self.model.model, &self.models);
        self.info = ModelInfo {
            model: self.model.model.clone(),
            tool_calls: self.model.tool_calls,
            context_window: self.facts.context_window,
            priced: self.facts.price.is_some(),
        };
    }

    /// Returns one answer, with all the tries that it needs.
    async fn answer(
        &mut self,
        request: &Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Turn, ProviderError> {
        let end = Instant::now() + Duration::from_millis(self.deadlines.total_ms);
        let mut prepared = self.prepared(request)?;
        let mut tries = Tries::default();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let tried = timeout(left, self.attempt(&prepared, request, progress)).await;
            let failure = match tried {
                Ok(Ok(turn)) => return Ok(self.priced(turn)),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::new(
                    Fault::Stalled,
                    self.too_long(self.deadlines.total_ms, "no complete answer"),
                ),
            };
            if failure.fault == Fault::Overflow {
                self.info.context_window = failure.context_window.or(self.info.context_window);
            }
            tries.made += 1;
            tries.broken += u32::from(failure.fault.is_broken_answer());
            tries.left = end.saturating_duration_since(Instant::now());
            if failure.fault == Fault::Empty && self.model.tool_calls.in_fences() {
                // The agent asks for another sample: the same request mostly gives the same answer.
                return Err(failure.into());
            }
            match retry::decide(
                &failure,
                tries,
                self.retry,
                self.fallback_model.is_some(),
                random(),
            ) {
                Decision::Wait(wait) => {
                    progress(Progress::Retry {
                        attempt: tries.made + 1,
                        delay_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                        reason: &failure.message,
                    });
                    sleep(wait).await;
                }
                Decision::Fallback => {
                    self.model.model = self.fallback_model.take().unwrap_or_default();
                    let own = self.models.get(&self.model.model);
                    self.model.tool_calls = own
                        .and_then(|own| own.tool_calls)
                        .unwrap_or_else(|| ToolCalls::of_model(&self.model.model));
                    self.load_model_info();
                    progress(Progress::Fallback {
                        model: &self.info.model,
                    });
                    prepared = self.prepared(request)?;
                    tries = Tries::default();
                }
                Decision::Stop => return Err(self.explained(failure, tries).await.into()),
            }
        }
    }

    /// Builds the request and returns it with its length. Each try sends a copy that shares its
    /// bytes.
    fn prepared(&self, request: &Request<'_>) -> Result<(reqwest::Request, usize), Failure> {
        let protocol = self.client.endpoint().protocol;
        let body = protocol.body(request, &self.model);
        let length = body.len();
        let built = self
            .client
            .request(Method::POST, protocol.path())
            .body(body)
            .build();
        let prepared = built.map_err(|error| self.client.not_sent(&error))?;
        Ok((prepared, length))
    }

    async fn attempt(
        &mut self,
        (prepared, length): &(reqwest::Request, usize),
        request: &Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Turn, Failure> {
        if std::mem::replace(&mut self.has_sent_request, true) {
            // The connection was unattended while tools ran and may be closed by now. Three rounds
            // let the runtime notice that before it is used again.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        }
        let protocol = self.client.endpoint().protocol;
        let first_byte = Duration::from_millis(self.deadlines.first_byte_ms);
        let start = Instant::now();
        let sent = self.client.send(prepared);
        let no_byte = || {
            Failure::new(
                Fault::Stalled,
                self.too_long(self.deadlines.first_byte_ms, "no answer"),
            )
        };
        let mut response = timeout(first_byte, sent).await.map_err(|_| no_byte())??;
        self.check(&mut response).await?;

        let mut pieces = Pieces::of(response);
        let mut reader = AnswerReader::new(protocol, request, *length);
        if self.model.tool_calls.in_fences() {
            // Small models do not find the end of such an answer.
            reader.end_repetition();
        }
        // When content was last received, as opposed to keep-alives, and how much was received.
        let mut content_at = Instant::now();
        let mut content_bytes = 0;
        let mut has_started = false;
        let mut wait = first_byte.saturating_sub(start.elapsed());
        while !reader.is_done() {
            let chunk = match timeout(wait, pieces.next()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => {
                    // Some servers omit the empty line after their last event.
                    reader
                        .push(b"\n\n", progress)
                        .map_err(|error| self.broken(error))?;
                    break;
                }
                Ok(Err(error)) => return Err(self.cut(&reader, &error)),
                Err(_) if !has_started => return Err(no_byte()),
                Err(_) => return Err(self.stalled(self.deadlines.stall_ms)),
            };
            reader
                .push(&chunk, progress)
                .map_err(|error| self.broken(error))?;
            has_started = true;
            if reader.received_bytes() != content_bytes {
                content_at = Instant::now();
                content_bytes = reader.received_bytes();
                progress(Progress::Received { bytes: content_bytes });
            }
            wait = Duration::from_millis(self.deadlines.stall_ms);
            if content_at.elapsed() > Duration::from_millis(self.deadlines.silence_ms) {
                return Err(self.stalled(self.deadlines.silence_ms));
            }
        }
        reader.finish(progress).map_err(|mut error| {
            if let StreamError::Empty(turn) = &mut error {
                **turn = self.priced(std::mem::take(turn));
                progress(Progress::Empty(turn));
            }
            self.broken(error)
        })
    }

    /// Adds the cost, unless the provider reports it.
    fn priced(&self, mut turn: Turn) -> Turn {
        turn.cost_usd = turn
            .cost_usd
            .or_else(|| self.facts.price.map(|price| price.cost(turn.usage)));
        turn
    }
}

/// Returns a number that differs between processes and tries. Only the time of the next try depends
/// on it.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Instant::now())
}
