//! Why a request has no answer.

use serde::{Deserialize, Serialize};
use temporalio_common::error::IncomingError;
use temporalio_sdk::{ActivityExecutionError, TimeoutType};

/// How a request has ended. The activity and the workflow of a request have this one result, so that
/// what the recipient could encode can be passed on.
pub(crate) type Answer = Result<String, RequestError>;

/// A request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum RequestError {
    /// The recipient has answered with this error.
    #[error("{0}")]
    Refused(String),
    /// The body is larger than 1 MiB after the codec, or cannot be encoded. It was not sent.
    #[error("the request cannot be sent: {0}")]
    InvalidBody(String),
    /// The answer is larger than 1 MiB after the codec, or cannot be encoded or decoded. The request
    /// was carried out.
    #[error("the request was carried out, but its answer cannot be sent: {0}")]
    InvalidAnswer(String),
    /// The recipient has not taken the request within three seconds. It was not carried out.
    #[error("the recipient did not take the request in time: it is not running, or has too many requests")]
    NotTaken,
    /// The caller has cancelled it. The recipient may have carried out a part of it.
    #[error("the request was cancelled")]
    Cancelled,
    /// The recipient has ended, is frozen, or has lost its connection. It may have carried out the
    /// request, and does not continue it.
    #[error("the recipient was lost: it is not known whether it has carried out the request")]
    Lost,
    /// There was no answer within the limit. The recipient may have carried out a part of it.
    #[error("the request has no answer within its limit")]
    TimedOut,
    /// The program of the recipient failed, or the request was ended on the server.
    #[error("the request failed: {0}")]
    Failed(String),
    /// The server refuses the request, or to report on it.
    #[error("the server refuses a request: {0}")]
    Server(String),
}

/// Returns the result of the activity.
pub(super) fn answer_of(result: Result<Answer, ActivityExecutionError>) -> Answer {
    let error = match result {
        Ok(answer) => return answer,
        Err(ActivityExecutionError::Cancelled(_)) => return Err(RequestError::Cancelled),
        Err(error) => error,
    };
    Err(match error.reason() {
        Some(IncomingError::Timeout(timeout)) => match timeout.timeout_type() {
            TimeoutType::ScheduleToStart => RequestError::NotTaken,
            TimeoutType::Heartbeat => RequestError::Lost,
            _ => RequestError::TimedOut,
        },
        Some(reason) => RequestError::Failed(reason.to_string()),
        None => RequestError::Failed(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_has_the_spelling_that_other_versions_read() {
        let answers: [(Answer, &str); 3] = [
            (Ok("a".to_owned()), r#"{"Ok":"a"}"#),
            (Err(RequestError::NotTaken), r#"{"Err":"not_taken"}"#),
            (
                Err(RequestError::Refused("r".to_owned())),
                r#"{"Err":{"refused":"r"}}"#,
            ),
        ];
        for (answer, json) in answers {
            assert_eq!(serde_json::to_string(&answer).unwrap(), json);
            assert_eq!(serde_json::from_str::<Answer>(json).unwrap(), answer);
        }
    }
}
