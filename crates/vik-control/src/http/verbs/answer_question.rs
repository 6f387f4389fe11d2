//! `vik answer`

use axum::Extension;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use vik_api::{AnswerQuestion, Steered};
use vik_base::report::ErrorCode;
use vik_core::ids::AttemptId;
use vik_core::question::{AnswerRefusal, NewAnswer, Reply};
use vik_core::scheduler::Command;

use super::{Caller, MAX_TEXT_BODY};
use crate::http::answer::{Answer, Input, IssueInPath, Refusal};
use crate::http::route::Route;

pub fn route() -> Route {
    Route::post::<AnswerQuestion>(
        "/issues/{id}/answer",
        "Answer the question of an agent, whose conversation then continues",
        post(answer).layer(DefaultBodyLimit::max(MAX_TEXT_BODY)),
    )
}

async fn answer(
    (State(daemon), Extension(by)): Caller,
    IssueInPath(issue): IssueInPath,
    Input(body): Input<AnswerQuestion>,
) -> Answer<Steered> {
    let reply = match (body.text, body.choice) {
        (Some(text), None) => Reply::Text(text),
        (None, Some(choice)) => Reply::Choice(choice as usize),
        _ => {
            return Err(Refusal::new(
                axum::http::StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::AnswerInvalid,
                "an answer has either `text` or `choice`",
            ));
        }
    };
    let question = match body.question.as_deref().map(uuid::Uuid::try_parse).transpose() {
        Ok(id) => id.map(AttemptId),
        Err(_) => return Err(Refusal::of_answer(&AnswerRefusal::OtherQuestion)),
    };
    let command = Command::AnswerQuestion(NewAnswer {
        issue,
        stage: body.stage,
        question,
        reply,
    });
    daemon.act(command.into(), by).await
}
