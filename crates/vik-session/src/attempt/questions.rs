//! Questions of an agent: its file for them, the answers in its prompt, and their events.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use vik_agents::driver;
use vik_base::failpoint;
use vik_base::report::one_line;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::outputs::{Refusal, Rule};
use vik_core::question::{self, AnsweredQuestion, MAX_FILE_BYTES, Question};
use vik_proc::{Sandbox, untrusted};
use vik_store::{AttemptFailure, AttemptFiles};
use vik_template::Fence;
use vik_workspace::fs as private;

use super::opened::AttemptContext;

/// The variable with the path of the file for a question, for every agent.
pub const FILE: &str = "VIK_QUESTIONS";

const FILE_NAME: &str = "questions.jsonl";

/// The maximum length of a question in the reason of its attempt.
const SHOWN: usize = 200;

/// Returns the file in which the agent of an attempt asks.
pub fn file(files: &AttemptFiles) -> PathBuf {
    files.questions_dir().join(FILE_NAME)
}

/// Returns the section about questions in the prompt of an agent that can write the file.
pub fn section(file: &Path) -> String {
    format!(
        "\n\n---\nVik: if you need a person\n\nIf you cannot go on without a decision or help of a person, do not guess: append one \
         line of JSON to the file `{}` (`${FILE}`), for example {}, and end your turn. `choices` and `default` are optional. \
         You will get the answer here. Do not ask what you can find out yourself.\n",
        vik_core::visible::visible(&file.to_string_lossy()),
        r#"`{"question":"…","choices":["…","…"],"default":"…"}`"#
    )
}

/// Returns the answers to earlier questions for a prompt; "" if there are none.
pub(super) fn answers_section(answers: &[AnsweredQuestion], fence: &Fence) -> String {
    let mut out = String::new();
    if answers.is_empty() {
        return out;
    }
    out.push_str("\n\n---\nVik: answers to your questions\n");
    for answer in answers {
        let AnsweredQuestion {
            question,
            answer,
            by,
            at,
            ..
        } = answer;
        let (question, answer) = (fence.data(question), answer.trim_end());
        let _ = write!(
            out,
            "\nYou asked: {question}\n\nAnswer of {by}, {at:.0}:\n{answer}\n"
        );
    }
    out
}

impl AttemptContext<'_> {
    /// Returns whether the agent can write the file in which it asks.
    pub(super) fn can_ask(&self) -> bool {
        let profile = &self.spec.profile;
        let files = self.sandbox_policy().map(|policy| policy.files);
        driver(profile.runtime).can_write_questions(profile, files, self.input_mode())
    }

    /// Creates the file in which the agent asks, and lets its sandbox write to it.
    pub(super) fn prepare_questions(
        &self,
        env: &mut BTreeMap<String, String>,
        sandbox: Option<&mut Sandbox>,
    ) -> Result<(), AttemptFailure> {
        env.insert(FILE.to_owned(), file(self.files).to_string_lossy().into_owned());
        create_request_file(&file(self.files), "the file for questions", sandbox)
    }

    /// Returns the question of an agent that has ended. No process of it is alive any more, so
    /// another daemon reads the same.
    ///
    /// # Errors
    /// When the file is not one with a question.
    pub(super) async fn read_question(&self) -> Result<Option<Question>, AttemptFailure> {
        let file = file(self.files);
        let read = spawn_blocking(move || read_question_file(&file)).await;
        let read = read.unwrap_or_else(|error| Err(unreadable(&error)));
        failpoint::reach("questions_read");
        let question = read.map_err(|refusal| AttemptFailure {
            feedback: Some(format!(
                "What you wrote into the file for questions is refused:\n- {refusal}\nAsk again in the form that is described below.\n"
            )),
            ..AttemptFailure::failed(
                FailureClass::Verify,
                format!("its question was rejected: {refusal}"),
            )
        })?;
        Ok(question.map(|question| Question {
            text: masked(&question.text),
            choices: question.choices.iter().map(|choice| masked(choice)).collect(),
            default: question.default.as_deref().map(masked),
        }))
    }

    /// Removes the file of the agent. The result of the attempt has its question.
    pub(super) fn remove_questions(&self) {
        let _ = std::fs::remove_dir_all(self.files.questions_dir());
    }
}

/// Creates a file in which an agent asks for something, and lets its sandbox write to its folder.
pub(super) fn create_request_file(
    file: &Path,
    name: &str,
    sandbox: Option<&mut Sandbox>,
) -> Result<(), AttemptFailure> {
    let created = private::create_parent(file).and_then(|()| private::write_private(file, b""));
    created.map_err(|error| {
        AttemptFailure::failed(FailureClass::Hook, format!("cannot create {name}: {error}"))
    })?;
    if let (Some(sandbox), Some(folder)) = (sandbox, file.parent()) {
        sandbox
            .write
            .push(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    }
    Ok(())
}

/// Returns the question in the file of an agent, if it wrote one.
///
/// # Errors
/// When the file cannot be read, is too large, or does not contain a question.
pub(crate) fn read_question_file(file: &Path) -> Result<Option<Question>, Refusal> {
    match untrusted::read(file, MAX_FILE_BYTES as u64) {
        Ok(bytes) => question::read(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let detail = format!("the file has more than {MAX_FILE_BYTES} bytes");
            Err(Refusal::of_file(Rule::TooLarge, detail))
        }
        Err(error) => Err(unreadable(&error)),
    }
}

fn unreadable(error: &dyn std::error::Error) -> Refusal {
    Refusal::of_file(Rule::NotText, format!("cannot read the file: {error}"))
}

fn masked(text: &str) -> String {
    vik_mask::mask(text).into_owned()
}

/// Returns the end of an attempt that asked, as the reason why nothing follows it.
pub(super) fn asked(question: &Question) -> AttemptFailure {
    let text = one_line(&question.text, SHOWN);
    AttemptFailure::of(Outcome::Asked, format!("asked: {text}"))
}

pub(super) fn question_event(question: &Question) -> Event<'_> {
    Event::Question {
        question: question.text.as_str().into(),
        choices: question
            .choices
            .iter()
            .map(|choice| choice.as_str().into())
            .collect(),
        default: question.default.as_deref().map(Into::into),
    }
}

pub(super) fn answer_event(answer: &AnsweredQuestion) -> Event<'_> {
    Event::Answer {
        asked_by: answer.id,
        question: answer.question.as_str().into(),
        answer: vik_mask::mask(&answer.answer),
        by: answer.by.as_str().into(),
        answered_at: answer.at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_names_the_file_and_answers_are_beside_their_questions() {
        let text = section(Path::new("/s/questions.jsonl"));
        assert!(text.contains("`/s/questions.jsonl` (`$VIK_QUESTIONS`)"), "{text}");
        let fence = Fence::of(&serde_json::json!({}), false);
        assert_eq!(answers_section(&[], &fence), "");
        let answer = AnsweredQuestion {
            id: vik_core::ids::AttemptId(uuid::Uuid::nil()),
            question: "Which?".to_owned(),
            answer: "this\n".to_owned(),
            by: "a person".to_owned(),
            at: jiff::Timestamp::UNIX_EPOCH,
            is_read: false,
        };
        assert_eq!(
            answers_section(&[answer], &fence),
            "\n\n---\nVik: answers to your questions\n\nYou asked: Which?\n\nAnswer of a person, 1970-01-01T00:00:00Z:\nthis\n"
        );
    }
}
