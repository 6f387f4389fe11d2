//! The end of an attempt, as its session log and its journal record it.

use serde::{Deserialize, Serialize};

use crate::attempt::AttemptResult;
use crate::limits::Spend;
use crate::money::MicroUsd;
use crate::outcome::{CostSource, FailureClass, Outcome, Usage};

/// The end of an attempt: its result, and the facts that only its log and people need. In JSON it
/// is the last line of a session log, which holds a part of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "EndedLine", into = "EndedLine")]
pub struct Ended {
    pub result: AttemptResult,
    /// The signal that ended the agent, if one did.
    pub signal: Option<i32>,
    /// The time from the start of the attempt to the proven end of its process tree, in
    /// milliseconds.
    pub duration_ms: u64,
    /// The charge in USD, where a cost is known.
    pub cost_usd: Option<f64>,
    /// The source of the charge.
    pub cost_source: CostSource,
    /// The agent's last message.
    pub last_message: Option<String>,
}

impl Ended {
    /// Creates the end of an attempt, with its charge.
    pub fn new(result: AttemptResult, estimate: Spend) -> Self {
        let (charged, cost_source) = result.charge(result.spend, estimate);
        Self {
            signal: None,
            duration_ms: 0,
            cost_usd: (cost_source != CostSource::None).then(|| charged.usd.usd()),
            cost_source,
            last_message: None,
            result,
        }
    }
}

/// The last line of a session log.
#[derive(Serialize, Deserialize)]
struct EndedLine {
    outcome: Outcome,
    failure_class: Option<FailureClass>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    duration_ms: u64,
    usage: Usage,
    cost_usd: Option<f64>,
    cost_source: CostSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace_changed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
}

impl From<Ended> for EndedLine {
    fn from(ended: Ended) -> Self {
        let result = ended.result;
        Self {
            outcome: result.outcome,
            failure_class: result.failure_class,
            exit_code: result.exit_code,
            signal: ended.signal,
            duration_ms: ended.duration_ms,
            usage: result.usage,
            cost_usd: ended.cost_usd,
            cost_source: ended.cost_source,
            reason: result.reason,
            last_message: ended.last_message,
            provider_session_id: result.provider_session_id,
            workspace_changed: result.changed,
            proof: result.proof,
        }
    }
}

impl From<EndedLine> for Ended {
    /// A line does not state whether the agent ran, but its other fields imply it. Whether the
    /// model answered follows from the source of the charge.
    fn from(line: EndedLine) -> Self {
        let tokens = line.usage.total();
        let has_usage = tokens > 0 || line.cost_usd.is_some();
        let result = AttemptResult {
            failure_class: line.failure_class,
            reason: line.reason,
            changed: line.workspace_changed,
            ran: line.exit_code.is_some() || line.signal.is_some() || tokens > 0,
            answered: Some(line.cost_source == CostSource::Estimate),
            spend: has_usage.then(|| Spend {
                tokens,
                usd: MicroUsd::from_usd(line.cost_usd.unwrap_or(0.0)),
            }),
            cost_source: line.cost_source,
            usage: line.usage,
            provider_session_id: line.provider_session_id,
            exit_code: line.exit_code,
            proof: line.proof,
            ..AttemptResult::new(line.outcome)
        };
        Self {
            result,
            signal: line.signal,
            duration_ms: line.duration_ms,
            cost_usd: line.cost_usd,
            cost_source: line.cost_source,
            last_message: line.last_message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_line_keeps_its_form_and_holds_the_result_that_it_implies() {
        let result = AttemptResult {
            failure_class: Some(FailureClass::Network),
            reason: Some("no route".to_owned()),
            ran: true,
            answered: Some(true),
            provider_session_id: Some("c".to_owned()),
            changed: Some(false),
            exit_code: Some(1),
            ..AttemptResult::new(Outcome::Failed)
        };
        let estimate = Spend {
            tokens: 10,
            usd: MicroUsd(2_500_000),
        };
        let ended = Ended {
            duration_ms: 7,
            last_message: Some("hm".to_owned()),
            ..Ended::new(result, estimate)
        };
        let line = serde_json::to_string(&ended).unwrap();
        assert_eq!(
            line,
            concat!(
                r#"{"outcome":"failed","failure_class":"network","exit_code":1,"signal":null,"duration_ms":7,"#,
                r#""usage":{"input_tokens":0,"cached_input_tokens":0,"cache_write_input_tokens":0,"output_tokens":0},"#,
                r#""cost_usd":2.5,"cost_source":"estimate","reason":"no route","last_message":"hm","#,
                r#""provider_session_id":"c","workspace_changed":false}"#
            )
        );
        let read: Ended = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
        assert!(read.result.ran && read.result.has_answered());
    }
}
