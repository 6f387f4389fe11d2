//! Questions of agents, and the answers of people.
//!
//! An agent that needs a person writes a question into a file and ends its turn. The attempt ends
//! as `asked`, which uses up no attempt, and the stage waits for an answer.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, IssueId, StageName};
use crate::message::{self, MessageRefusal};
use crate::outputs::{Refusal, Rule, written};
use crate::visible::visible;
use crate::workflow::QuestionPolicy;

/// The maximum size of the file with the question of an attempt, in bytes.
pub const MAX_FILE_BYTES: usize = 64 * 1024;
/// The maximum length of a question and of its default answer, in characters.
pub const MAX_TEXT: usize = 4_000;
/// The maximum number of choices of a question.
pub const MAX_CHOICES: usize = 10;
/// The maximum length of a choice, in characters.
pub const MAX_CHOICE: usize = 200;
/// The maximum number of answers that a run keeps for its agents. The oldest ones are dropped.
pub const MAX_ANSWERS: usize = 20;

/// A question of an agent. Its texts are an agent's: data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    pub text: String,
    /// The answers that the agent suggests. Other answers are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The answer that the agent assumes if nobody answers in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingQuestion {
    /// The attempt that asked, by which a person can name the question.
    #[schemars(with = "String")]
    pub id: AttemptId,
    #[serde(flatten)]
    pub question: Question,
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The answer that is given when nobody answers in time, and its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DefaultAnswer>,
}

/// The answer to a question that nobody answers in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefaultAnswer {
    #[schemars(with = "String")]
    pub at: Timestamp,
    pub answer: String,
}

/// An answered question, which stays with its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredQuestion {
    /// The attempt that asked.
    pub id: AttemptId,
    pub question: String,
    pub answer: String,
    /// The person and the way they used, or the time limit.
    pub by: String,
    pub at: Timestamp,
    /// Whether an agent has read the answer. It is only repeated in a new conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_read: bool,
}

/// What a person answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Text(String),
    /// One of the choices of the question, from 1.
    Choice(usize),
}

/// A person's answer to the question of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAnswer {
    pub issue: IssueId,
    /// The stage; `None` for the only one that asks.
    pub stage: Option<StageName>,
    /// The question that the person has seen; `None` for any.
    pub question: Option<AttemptId>,
    pub reply: Reply,
}

/// The reason why an answer was not accepted. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerRefusal {
    /// The text is not one that a person can send to an agent.
    Text(MessageRefusal),
    /// The issue has no open question.
    NoQuestion,
    /// The open question is not the one that was named.
    OtherQuestion,
    /// These stages have an open question each.
    Several(Vec<StageName>),
    /// The question has no choice with this number.
    NoSuchChoice { number: usize, choices: usize },
    /// A person has taken the issue over.
    TakenOver,
}

impl AnswerRefusal {
    /// Returns a command or an action that helps, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Text(refusal) => refusal.hint(),
            Self::NoQuestion => Some("`vik message` sends a message to the agent"),
            Self::OtherQuestion => Some("`vik show ISSUE` shows the open question"),
            Self::Several(_) => Some("name one with --stage"),
            Self::NoSuchChoice { .. } => Some("answer with a text, or with the number of a choice"),
            Self::TakenOver => Some("hand the issue back first with `vik handback`"),
        }
    }
}

impl fmt::Display for AnswerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(refusal) => refusal.describe("answer", f),
            Self::NoQuestion => f.write_str("the issue has no open question"),
            Self::OtherQuestion => f.write_str("the open question is not the one that you named"),
            Self::Several(stages) => {
                let names: Vec<_> = stages.iter().map(StageName::as_str).collect();
                write!(f, "several stages have an open question: {}", names.join(", "))
            }
            Self::NoSuchChoice { number, choices: 0 } => {
                write!(f, "the question has no choices, so no choice {number}")
            }
            Self::NoSuchChoice { number, choices } => {
                write!(f, "the question has no choice {number}; it has {choices}")
            }
            Self::TakenOver => f.write_str("a person has taken the issue over"),
        }
    }
}

impl Reply {
    /// Returns the text of the answer.
    ///
    /// # Errors
    /// If the question has no such choice, or the text is not a valid message.
    pub fn resolve(self, question: &Question) -> Result<String, AnswerRefusal> {
        match self {
            Self::Text(text) => {
                message::check_text(&text).map_err(AnswerRefusal::Text)?;
                Ok(text)
            }
            Self::Choice(number) => {
                let choice = number.checked_sub(1).and_then(|at| question.choices.get(at));
                choice.cloned().ok_or(AnswerRefusal::NoSuchChoice {
                    number,
                    choices: question.choices.len(),
                })
            }
        }
    }
}

impl PendingQuestion {
    /// Creates a question that is asked now. It has a time limit only if the stage has one and the
    /// agent or the stage has a default answer.
    pub fn new(id: AttemptId, question: Question, policy: Option<&QuestionPolicy>, now: Timestamp) -> Self {
        let timeout = policy.and_then(|policy| {
            let answer = question.default.clone().or_else(|| policy.default.clone())?;
            let wait = SignedDuration::try_from(policy.timeout?.0).unwrap_or(SignedDuration::MAX);
            let at = now.checked_add(wait).unwrap_or(Timestamp::MAX);
            Some(DefaultAnswer { at, answer })
        });
        Self {
            id,
            question,
            since: now,
            timeout,
        }
    }

    /// Returns whether the agent suggests no answer: it needs a person.
    pub fn needs_person(&self) -> bool {
        self.question.choices.is_empty()
    }

    /// Returns the question in one sentence.
    pub fn message(&self) -> String {
        let kind = match self.needs_person() {
            true => "the agent needs a person",
            false => "the agent asks",
        };
        format!("{kind}: {}", self.question.text)
    }

    /// Returns the actions that answer the question, as text.
    pub fn freed_by(&self) -> String {
        match &self.timeout {
            Some(timeout) => format!(
                "`vik answer`; answered with `{}` at {:.0} without an answer",
                timeout.answer, timeout.at
            ),
            None => "`vik answer`".to_owned(),
        }
    }
}

/// Parses the file of an attempt; `None` if it has no question. Empty lines and repeated lines are
/// skipped. Characters that a terminal would not show are made visible.
///
/// # Errors
/// Returns why the file is refused.
///
/// # Examples
///
/// ```
/// use vik_core::question::read;
///
/// let file = br#"{"question":"Which table?","choices":["old","new"]}"#;
/// assert_eq!(read(file).unwrap().unwrap().choices, ["old", "new"]);
/// assert_eq!(read(b"\n").unwrap(), None);
/// ```
pub fn read(file: &[u8]) -> Result<Option<Question>, Refusal> {
    let mut found: Option<Question> = None;
    for (number, line) in written(file, MAX_FILE_BYTES)? {
        let refused = |(rule, detail): (Rule, String)| Refusal {
            line: Some(number),
            kind: None,
            rule,
            detail,
        };
        let question = parsed(line).and_then(checked).map_err(refused)?;
        match &found {
            Some(first) if *first != question => {
                let detail =
                    "an attempt may ask one question; write all you need to know into one".to_owned();
                return Err(refused((Rule::TooMany, detail)));
            }
            _ => found = Some(question),
        }
    }
    Ok(found)
}

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    question: String,
    #[serde(default)]
    choices: Vec<String>,
    #[serde(default)]
    default: Option<String>,
}

fn parsed(line: &str) -> Result<Line, (Rule, String)> {
    serde_json::from_str(line).map_err(|error| {
        let (rule, problem) = match error.is_data() {
            true => (Rule::Schema, "not a valid question"),
            false => (Rule::NotJson, "not valid JSON"),
        };
        let error: String = error.to_string().chars().take(160).collect();
        (rule, format!("{problem}: {}", visible(&error)))
    })
}

/// Checks the texts of a question, and makes their hidden characters visible.
fn checked(line: Line) -> Result<Question, (Rule, String)> {
    let Line {
        question,
        choices,
        default,
    } = line;
    if choices.len() > MAX_CHOICES {
        return Err((
            Rule::TooMany,
            format!("`choices` has more than {MAX_CHOICES} entries"),
        ));
    }
    let text = field("question", &question, MAX_TEXT)?;
    let choices = choices
        .iter()
        .map(|choice| match choice.contains(['\n', '\r']) {
            true => Err((Rule::Character, "a choice has more than one line".to_owned())),
            false => field("choices", choice, MAX_CHOICE),
        })
        .collect::<Result<Vec<_>, _>>()?;
    if choices.iter().collect::<BTreeSet<_>>().len() < choices.len() {
        return Err((Rule::Twice, "`choices` has an entry twice".to_owned()));
    }
    let default = default
        .map(|text| field("default", &text, MAX_TEXT))
        .transpose()?;
    let is_choice = |text: &String| choices.is_empty() || choices.contains(text);
    if default.as_ref().is_some_and(|text| !is_choice(text)) {
        return Err((Rule::NotAllowed, "`default` is none of the choices".to_owned()));
    }
    Ok(Question {
        text,
        choices,
        default,
    })
}

fn field(name: &str, text: &str, max: usize) -> Result<String, (Rule, String)> {
    let text = text.trim();
    if text.is_empty() {
        return Err((Rule::Empty, format!("`{name}` has an empty text")));
    }
    if text.chars().count() > max {
        return Err((Rule::TooLong, format!("`{name}` has more than {max} characters")));
    }
    Ok(visible(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &str) -> String {
        read(file.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn file_holds_one_question() {
        let line = r#"{"question":" Which? ","choices":["a","b"],"default":"b"}"#;
        let question = read(format!("\n{line}\r\n{line}\n").as_bytes()).unwrap().unwrap();
        assert_eq!(question.text, "Which?");
        assert_eq!(question.default.as_deref(), Some("b"));
        assert_eq!(read(b"").unwrap(), None);
    }

    #[test]
    fn malformed_file_names_the_line_and_the_rule() {
        for (file, refused) in [
            (
                "\nhello",
                "line 2: not valid JSON: expected value at line 1 column 1 (not_json)",
            ),
            (
                r#"{"question":" "}"#,
                "line 1: `question` has an empty text (empty)",
            ),
            (
                r#"{"question":"a","choices":["x","x"]}"#,
                "line 1: `choices` has an entry twice (twice)",
            ),
            (
                r#"{"question":"a","choices":["x\ny"]}"#,
                "line 1: a choice has more than one line (character)",
            ),
            (
                r#"{"question":"a","choices":["x"],"default":"y"}"#,
                "line 1: `default` is none of the choices (not_allowed)",
            ),
            (
                "{\"question\":\"a\"}\n{\"question\":\"b\"}",
                "line 2: an attempt may ask one question; write all you need to know into one (too_many)",
            ),
        ] {
            assert_eq!(refusal(file), refused, "{file}");
        }
        assert!(refusal(r#"{"text":"a"}"#).ends_with("(schema)"));
        let long = "x".repeat(MAX_TEXT + 1);
        assert!(refusal(&format!(r#"{{"question":"{long}"}}"#)).ends_with("(too_long)"));
        assert!(refusal(&" ".repeat(MAX_FILE_BYTES + 1)).ends_with("(too_large)"));
        assert_eq!(read(b"\xff").unwrap_err().rule, Rule::NotText);
    }

    #[test]
    fn hidden_characters_of_a_question_are_visible() {
        let question = read(br#"{"question":"a\u001b[2Jb\u202ec\nd"}"#).unwrap().unwrap();
        assert_eq!(question.text, "a⟦U+001B⟧[2Jb⟦U+202E⟧c\nd");
    }

    #[test]
    fn reply_is_a_valid_text_or_an_existing_choice() {
        let question = |choices: &[&str]| Question {
            text: "?".to_owned(),
            choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
            default: None,
        };
        let two = question(&["x", "y"]);
        assert_eq!(Reply::Choice(2).resolve(&two), Ok("y".to_owned()));
        assert_eq!(Reply::Text("z".to_owned()).resolve(&two), Ok("z".to_owned()));
        for (reply, refused) in [
            (Reply::Choice(0), "the question has no choice 0; it has 2"),
            (Reply::Choice(3), "the question has no choice 3; it has 2"),
            (Reply::Text(" \n".to_owned()), "the answer is empty"),
            (
                Reply::Text("x".repeat(1 << 20)),
                "the answer has 1048576 bytes; at most 65536 are allowed",
            ),
            (
                Reply::Text("\u{1b}[2J".to_owned()),
                "the answer contains the control character U+001B",
            ),
        ] {
            assert_eq!(reply.resolve(&two).unwrap_err().to_string(), refused);
        }
        let refused = Reply::Choice(1).resolve(&question(&[])).unwrap_err();
        assert_eq!(refused.to_string(), "the question has no choices, so no choice 1");
    }
}
