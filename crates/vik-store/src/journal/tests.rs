use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

const BOOT: &str = "boot";
const SCRIPTS: [&str; 5] = ["after_create", "before_run", "prompt", "verify", "after_run"];

fn process(pid: i32) -> ProcessRecord {
    ProcessRecord { pid, start_time: 7 }
}

fn started(script: &str) -> Step {
    Step::Started {
        script: script.to_owned(),
    }
}

fn finished(script: &str, trouble: Option<AttemptFailure>) -> Step {
    Step::Finished {
        script: script.to_owned(),
        trouble,
    }
}

fn over(outcome: Outcome) -> Step {
    let report = AttemptResult::new(outcome);
    let ended = serde_json::json!({
        "outcome": outcome.as_str(), "duration_ms": 1, "usage": {}, "cost_usd": null, "cost_source": "none",
    });
    Step::Over {
        ended: serde_json::from_value(ended).unwrap(),
        report: Box::new(report),
    }
}

/// Writes steps through a new journal each, as successive daemons would.
fn written(steps: &[Step]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.steps.jsonl");
    for step in steps {
        Journal::open(&path).unwrap().record(step.clone()).unwrap();
    }
    (dir, path)
}

/// Generates the journal of a whole attempt: which scripts it has, which of them fails, and whether
/// its agent was stopped.
fn lives() -> impl Strategy<Value = Vec<Step>> {
    let scripts = prop::array::uniform5(any::<bool>());
    (scripts, prop::option::of(0..5_usize), any::<bool>()).prop_map(|(has, fails, stops)| {
        let trouble = AttemptFailure::failed(FailureClass::Hook, "no");
        let mut steps = vec![Step::AttemptStarted {
            boot_id: BOOT.to_owned(),
        }];
        for (at, script) in SCRIPTS.into_iter().enumerate() {
            if at == 3 {
                steps.extend([
                    Step::Shim {
                        shim: process(5),
                        before: Some(9),
                    },
                    Step::AgentStarted { agent: process(6) },
                ]);
                if stops {
                    steps.push(Step::Stopping {
                        trouble: trouble.clone(),
                    });
                }
            }
            if at == 4 {
                steps.push(over(Outcome::Succeeded));
            }
            if has[at] {
                let failed = (fails == Some(at)).then(|| trouble.clone());
                steps.extend([started(script), finished(script, failed.clone())]);
                if failed.is_some() && at < 3 {
                    steps.push(over(Outcome::Failed));
                    break;
                }
            }
            if at == 0 {
                steps.push(Step::WorkspaceReady);
            }
        }
        steps
    })
}

proptest! {
    /// Wherever a daemon dies, the next one neither repeats what was done nor assumes what was not
    /// done.
    #[test]
    fn journal_prefix_leads_to_the_right_plan(steps in lives()) {
        for cut in 1..=steps.len() {
            let done = &steps[..cut];
            let has = |wanted: &dyn Fn(&Step) -> bool| done.iter().any(wanted);
            let was_started = has(&|step| matches!(step, Step::Shim { .. }));
            let is_over = has(&|step| matches!(step, Step::Over { .. }));
            let plan_here = plan(done, BOOT);
            match &plan_here {
                // An agent is started only if none was started before.
                ResumePoint::Prepare => prop_assert!(!was_started && !is_over),
                ResumePoint::Attach { boot_id, shim, agent, before, stopping } => {
                    prop_assert!(was_started && !is_over);
                    prop_assert_eq!((boot_id.as_str(), *shim, *before), (BOOT, process(5), Some(9)));
                    prop_assert_eq!(agent.is_some(), has(&|step| matches!(step, Step::AgentStarted { .. })));
                    prop_assert_eq!(stopping.is_some(), has(&|step| matches!(step, Step::Stopping { .. })));
                }
                ResumePoint::Over { .. } => prop_assert!(is_over),
                ResumePoint::Rebooted => prop_assert!(false, "it is the same boot"),
            }
            match plan(done, "another boot") {
                // No process of the attempt runs, and an attempt that is over stays over.
                ResumePoint::Rebooted => prop_assert!(!was_started && !is_over),
                ResumePoint::Prepare => prop_assert!(false, "nothing is started under the id of another boot"),
                other => prop_assert_eq!(other, plan_here),
            }
            for script in SCRIPTS {
                let script_started = done.contains(&started(script));
                let end = done.iter().find_map(|step| match step {
                    Step::Finished { script: of, trouble } if of == script => Some(trouble.as_ref()),
                    _ => None,
                });
                let expected = match (script_started, end) {
                    (_, Some(trouble)) => ScriptProgress::Ended(trouble),
                    (true, None) => ScriptProgress::Started,
                    (false, None) => ScriptProgress::NotStarted,
                };
                prop_assert_eq!(ran(done, script), expected);
            }
        }
    }

    /// A step whose line was torn by a death of the daemon or the machine was not recorded, and the
    /// next line is complete.
    #[test]
    fn journal_resumes_after_a_cut_line(steps in lives(), part in 0.0..1.0_f64) {
        let (_dir, path) = written(&steps);
        let whole = std::fs::read(&path).unwrap();
        let cut = (whole.len() as f64 * part) as usize;
        std::fs::write(&path, &whole[..cut]).unwrap();
        let whole_lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
        let mut journal = Journal::open(&path).unwrap();
        prop_assert_eq!(journal.steps(), &steps[..whole_lines]);
        journal.record_durably(Step::WorkspaceReady).unwrap();
        let reopened = Journal::open(&path).unwrap();
        prop_assert_eq!(&reopened.steps()[..whole_lines], &steps[..whole_lines]);
        prop_assert_eq!(&reopened.steps()[whole_lines..], &[Step::WorkspaceReady]);
    }
}

#[test]
fn repeated_script_shows_its_latest_progress() {
    let steps = [started("verify"), started("verify"), finished("verify", None)];
    assert_eq!(ran(&steps[..2], "verify"), ScriptProgress::Started);
    assert_eq!(ran(&steps, "verify"), ScriptProgress::Ended(None));
}

#[test]
fn first_stop_reason_is_kept() {
    let stop = |reason: &str| Step::Stopping {
        trouble: AttemptFailure::of(Outcome::TimedOut, reason),
    };
    let shim = Step::Shim {
        shim: process(5),
        before: None,
    };
    let ResumePoint::Attach { stopping, .. } = plan(&[shim, stop("one"), stop("two")], BOOT) else {
        panic!("it is to be taken up")
    };
    assert_eq!(stopping.unwrap().reason, "one");
}

#[test]
fn unknown_step_is_skipped_and_broken_line_is_refused() {
    let (_dir, path) = written(&[]);
    let line = |step: &str| format!("{{\"at\":\"2026-01-01T00:00:00Z\",\"step\":\"{step}\",\"more\":1}}\n");
    std::fs::write(&path, line("dreamt") + &line("workspace_ready")).unwrap();
    assert_eq!(
        Journal::open(&path).unwrap().steps(),
        [Step::Unknown, Step::WorkspaceReady]
    );
    std::fs::write(&path, line("workspace_ready") + "nonsense\n").unwrap();
    assert!(Journal::open(&path).is_err());
}

#[test]
fn step_that_cannot_be_recorded_is_not_kept() {
    let mut journal = Journal {
        file: AppendOnlyFile::full().unwrap(),
        steps: Vec::new(),
        times: Vec::new(),
    };
    assert!(journal.record(Step::WorkspaceReady).is_err());
    assert_eq!(journal.steps(), []);
}

#[test]
fn commands_that_ran_twice_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.steps.jsonl");
    assert_eq!(commands_run_twice(&path), [""; 0]);
    let mut journal = Journal::open(&path).unwrap();
    for step in [
        started("after_create"),
        finished("after_create", None),
        started("before_run"),
        started("before_run"),
        started("before_run"),
        finished("before_run", None),
    ] {
        journal.record(step).unwrap();
    }
    assert_eq!(commands_run_twice(&path), ["before_run"]);
}

#[test]
fn check_of_a_turn_counts_until_the_agent_gets_input() {
    let check = CheckedTurn {
        turn: 1,
        trouble: Some(AttemptFailure::failed(FailureClass::Verify, "no")),
        workspace: Some(7),
    };
    let turn = NotedTurn {
        id: vik_core::ids::MessageId(uuid::Uuid::nil()),
        granted: vik_core::turn::GrantedTurn {
            turn: 2,
            max: 3,
            is_verified: false,
        },
        prompt: "p".to_owned(),
        lines: vec!["l".to_owned()],
    };
    let checked = Step::TurnChecked(Box::new(check.clone()));
    let (_dir, path) = written(&[checked]);
    let mut journal = Journal::open(&path).unwrap();
    assert_eq!(journal.checked_turn(), Some(&check));
    journal.record(finished("before_run", None)).unwrap();
    assert_eq!(journal.checked_turn(), Some(&check));
    journal.record(Step::Turn(Box::new(turn.clone()))).unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.checked_turn(), None);
    assert_eq!(journal.last_turn().map(|(_, turn)| turn), Some(&turn));
    let ids: Vec<_> = journal.inputs().map(|input| input.id()).collect();
    assert_eq!(ids, [turn.id]);
}
