//! Reads the log in order as it grows.

use std::collections::VecDeque;
use std::time::Duration;

use temporalio_client::tonic::{Code, Status};
use temporalio_common::data_converters::{PayloadConversionError, TemporalDeserializable};
use temporalio_common::protos::temporal::api::common::v1::Payloads;
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use tokio::time::Instant;

use super::reader::{Cursor, Entry, Reader, Record};
use super::workflows::{APPEND, TAKE_TERM};
use super::{Log, LogError, Tenure};
use crate::rpc::{Backoff, decode, history_page, is_temporary};

/// How long a segment may be missing: the next one exists soon after one is sealed.
const MAX_MISSING: Duration = Duration::from_secs(30);

/// Reads the log in order. Dropping a future of it loses no entry.
#[derive(Debug)]
pub struct Follower {
    log: Log,
    reader: Reader,
    /// Where the next page of the history starts; empty at the start of a segment.
    page: Vec<u8>,
    ready: VecDeque<Entry>,
    backoff: Backoff,
    missing_since: Option<Instant>,
}

impl Follower {
    pub(super) fn new(log: Log, cursor: Option<Cursor>, first: u64) -> Self {
        Self {
            log,
            reader: Reader::new(cursor, first),
            page: Vec::new(),
            ready: VecDeque::new(),
            backoff: Backoff::default(),
            missing_since: None,
        }
    }

    /// Returns the segment that is read.
    pub fn segment(&self) -> u64 {
        self.reader.number()
    }

    /// Returns the id of the log. While the server does not answer, the request is repeated.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub async fn log_id(&mut self) -> Result<String, LogError> {
        loop {
            if let Some(id) = self.reader.log_id() {
                return Ok(id.to_owned());
            }
            self.fetch().await?;
        }
    }

    /// Returns the next entry, and waits until there is one. Failures of the connection are no
    /// errors: it waits until the server is back.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read further, with [`ReadError::Gap`](super::ReadError::Gap) if entries that
    /// were not read have been removed.
    pub async fn next(&mut self) -> Result<Entry, LogError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(entry);
            }
            self.fetch().await?;
        }
    }

    /// Returns the next entry that was written before the term was taken, or `None` if all of them
    /// were read.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next); [`ReadError::Ahead`](super::ReadError::Ahead) if more was read than the log has.
    pub async fn next_before(&mut self, tenure: &Tenure) -> Result<Option<Entry>, LogError> {
        self.reader.check_not_ahead(tenure.position)?;
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            let is_read = |position| position >= tenure.position;
            if self.reader.position().is_some_and(is_read) {
                return Ok(None);
            }
            self.fetch().await?;
        }
    }

    /// Reads a page of the history. While there is no new event, the server waits with its answer.
    async fn fetch(&mut self) -> Result<(), LogError> {
        let segment = self.log.queue.segment(self.reader.number());
        let response = match history_page(&self.log.client, segment, self.page.clone()).await {
            Ok(response) => response,
            Err(status) => return self.on_error(status).await,
        };
        let mut records = Vec::new();
        for event in response.history.unwrap_or_default().events {
            records.extend(self.record(event).await?);
        }
        // From here on there is no await, so that a dropped future applies all of a page or nothing.
        self.backoff = Backoff::default();
        self.missing_since = None;
        self.page = response.next_page_token;
        for record in records {
            self.ready.extend(self.reader.apply(record)?);
            if self.reader.is_at_end_of_segment() {
                self.reader.advance()?;
                self.page.clear();
                return Ok(());
            }
        }
        if self.page.is_empty() {
            let reason = "it was closed before it was sealed".to_owned();
            return Err(self.reader.damaged(reason).into());
        }
        Ok(())
    }

    async fn on_error(&mut self, status: Status) -> Result<(), LogError> {
        match status.code() {
            Code::NotFound => {
                let first = self.log.index().await?.first;
                if first > self.reader.number() {
                    self.reader.skip_to(first);
                    self.page.clear();
                    return Ok(());
                }
                let since = self.missing_since.get_or_insert_with(Instant::now);
                if since.elapsed() > MAX_MISSING {
                    return Err(self.reader.damaged("it is missing".to_owned()).into());
                }
            }
            // A page that the server no longer knows.
            Code::InvalidArgument if !self.page.is_empty() => {
                self.reader.restart();
                self.page.clear();
            }
            code if is_temporary(code) => {
                tracing::debug!(%status, "the log cannot be read, trying again");
            }
            _ => return Err(LogError::Server(status.to_string())),
        }
        self.backoff.pause().await;
        Ok(())
    }

    /// Returns what an event means for the log, if anything.
    async fn record(&self, event: HistoryEvent) -> Result<Option<Record>, LogError> {
        let record = match event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
                Record::Start(self.decode(started.input).await?)
            }
            Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)) => {
                let input = accepted.accepted_request.and_then(|request| request.input);
                let Some(input) = input else {
                    let reason = "an update has no content".to_owned();
                    return Err(self.reader.damaged(reason).into());
                };
                match input.name.as_str() {
                    APPEND => Record::Append(self.decode(input.args).await?),
                    TAKE_TERM => Record::Term,
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(record))
    }

    async fn decode<T>(&self, payloads: Option<Payloads>) -> Result<T, PayloadConversionError>
    where
        T: TemporalDeserializable + 'static,
    {
        decode(&self.log.client, payloads.unwrap_or_default().payloads).await
    }
}
