//! Answers to the control socket.

use tokio::sync::oneshot;
use vik_api::{ErrorBody, PROTOCOL, Response, Verb};
use vik_core::scheduler::{Answer, Ask, Input};

use super::{Asking, Orchestrator};
use crate::control::view;

impl Orchestrator {
    pub(super) fn on_ask(&mut self, (request, answer): Asking) {
        if request.v != PROTOCOL {
            return tell(
                answer,
                error(
                    "protocol",
                    format!("this daemon speaks version {PROTOCOL} of the control protocol"),
                    "use the same version of vik, or `vik restart`",
                ),
            );
        }
        match request.verb {
            Verb::Status => tell(answer, Response::Status(Box::new(self.status()))),
            Verb::Refresh => {
                self.refresh();
                tell(answer, Response::Accepted);
            }
            Verb::Stop { keep_sessions: true } => {
                self.begin_keep();
                tell(answer, Response::Accepted);
            }
            Verb::Stop { keep_sessions: false } => {
                // Asking twice is no reason to hurry: a signal does that.
                if !self.stop.1.is_set() {
                    self.begin_stop();
                }
                tell(answer, Response::Accepted);
            }
            Verb::Pause { issue } => self.ask(Ask::Pause(issue), answer),
            Verb::Continue { issue } => self.ask(Ask::Continue(issue), answer),
            Verb::Cancel { issue } => self.ask(Ask::Cancel(issue), answer),
            Verb::Unpark { issue, attempts } => self.ask(Ask::Unpark(issue, attempts), answer),
            Verb::Drain => {
                self.ask(Ask::Drain, answer);
                self.begin_drain();
            }
            Verb::Explain { issue } => {
                let told = view::explanation(&self.scheduler, &self.workflow, &issue, self.now());
                let told = told.map_or(Response::NotFound, |told| Response::Explanation(Box::new(told)));
                tell(answer, told);
            }
        }
    }

    /// Has the scheduler decide; the answer goes out when what it decided is on disk.
    fn ask(&mut self, ask: Ask, answer: oneshot::Sender<Response>) {
        if let Some(broken) = &self.broken {
            let message = crate::report::chain(&broken.error);
            return tell(answer, error("ledger", message, "the daemon is ending"));
        }
        self.next_ask += 1;
        self.answers.insert(self.next_ask, answer);
        self.handle(Input::Ask(self.next_ask, ask));
    }
}

fn tell(answer: oneshot::Sender<Response>, response: Response) {
    // Who asked may be gone.
    let _ = answer.send(response);
}

/// What came of a request, on the wire.
pub(super) fn response(answer: &Answer) -> Response {
    match answer {
        Answer::Done(count) => Response::Done { count: *count },
        Answer::UnknownIssue => Response::NotFound,
        Answer::Nothing(why) => Response::Nothing {
            why: (*why).to_owned(),
        },
    }
}

fn error(code: &str, message: String, hint: &str) -> Response {
    Response::Error(ErrorBody {
        code: code.to_owned(),
        message,
        hint: Some(hint.to_owned()),
    })
}
