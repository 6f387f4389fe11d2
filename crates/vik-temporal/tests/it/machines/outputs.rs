//! Outputs of an agent on a worker, which the hub carries out.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;
use vik_core::outcome::Outcome;
use vik_core::outputs::{OutputNote, Progress};
use vik_store::ledger::Reader;
use vik_testkit::eventually;

use super::{Machine, Scene, TOKEN, list};

impl Machine {
    /// Returns the book of the latest attempt in the ledger of this hub.
    fn output_notes(&self) -> Vec<OutputNote> {
        let home = self.home();
        let reader = home.and_then(|home| Reader::open(&home.join("service")).unwrap());
        let attempt = self.attempts().into_iter().next();
        let notes = reader
            .zip(attempt)
            .map(|(reader, attempt)| reader.output_notes(attempt.started.run).unwrap());
        notes.unwrap_or_default()
    }

    /// Returns why the work of the latest attempt was not handed over, by the ledger of this hub.
    fn hand_over_failure(&self) -> Option<String> {
        let attempt = self.attempts().into_iter().next();
        let report = attempt.unwrap().ended.unwrap().report;
        report.hand_over_failure.map(|failure| failure.reason)
    }

    /// Returns the log of the only session that has run on this machine.
    fn session_log(&self) -> String {
        let sessions = self.home().map(|home| list(&home.join("sessions/1")));
        let mut files = sessions.into_iter().flatten();
        let record = files.find(|path| path.to_string_lossy().ends_with(".attempt.json"));
        let log = record
            .unwrap()
            .to_string_lossy()
            .replace(".attempt.json", ".jsonl");
        std::fs::read_to_string(log).unwrap()
    }
}

/// Requests a comment, which the hub makes in `comments` of the folder of the tracker. The command is
/// `steps`, after it has checked the token.
fn comment_scene(steps: &str) -> Option<Scene> {
    let ask = r#"run echo '{"kind":"comment","body":"Done."}' >> "$VIK_OUTPUTS"; ok"#;
    Scene::with(ask, |workflow, folder| {
        let folder = folder.display();
        let run = format!("cd {folder}; test \"$TOKEN\" = {TOKEN} || exit 7; {steps}");
        let check = format!("cd {folder}; touch comments; grep -q \"$VIK_OUTPUT_KEY\" comments");
        workflow["secrets"] = json!({"TOKEN": {"env": "HUB_TOKEN"}});
        workflow["agents"]["a"]["sandbox"] = json!({});
        let backoff = json!({"initial_backoff": "50ms", "max_backoff": "50ms"});
        workflow["issue"]["stages"]["work"]["hand_over"] = backoff;
        workflow["issue"]["stages"]["work"]["outputs"] = json!({
            "secrets": ["TOKEN"],
            "comment": {"run": run, "check": check},
        });
    })
}

const COMMENT: &str = "echo \"$VIK_OUTPUT_KEY\" >> comments";

/// Shows that the command runs, and waits for the test.
const WAIT: &str = "touch up; while ! test -e go; do sleep 0.05; done";

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.env.work().join(name)
    }

    fn comments(&self) -> usize {
        let comments = std::fs::read_to_string(self.path("comments")).unwrap_or_default();
        comments.lines().count()
    }
}

#[test]
fn hub_carries_out_an_output_with_the_token_that_only_it_has() {
    let Some(scene) = comment_scene(COMMENT) else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    scene.wait_for_state("done");
    assert_eq!(hub.outcomes(1), [Outcome::Succeeded]);
    assert_eq!(hub.hand_over_failure(), None);
    assert_eq!(scene.comments(), 1);
    let notes = hub.output_notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(
        (notes[0].progress, &*notes[0].summary),
        (Progress::Applied, "Done.")
    );
    // The worker has the result in its log, and no book.
    let log = worker.session_log();
    assert!(log.contains(r#""status":"applied""#), "{log}");
    assert!(!worker.log().contains(TOKEN));
    hub.stop();
    worker.stop();
}

#[test]
fn pull_request_is_pushed_by_the_worker_and_opened_by_the_hub() {
    let ask = r#"run echo '{"kind":"pull_request","title":"T"}' >> "$VIK_OUTPUTS"; ok"#;
    let scene = Scene::with(ask, |workflow, _| {
        workflow["issues"] = json!({"tracker": "files", "pull": {"idle_sec": "100ms"}});
        workflow["agents"]["a"]["sandbox"] = json!({});
        workflow["issue"]["stages"]["work"]["outputs"] = json!({"pull_request": {}});
    });
    let Some(scene) = scene else {
        return;
    };
    let calls = scene.path("calls");
    let list = scene.tracker.pull_command();
    let vik = format!(
        "#!/bin/sh\ncase \"$*\" in\n\
         'tracker files list') exec {list} ;;\n\
         'tracker files show 1') exec {} ;;\n\
         *) echo \"$* in $VIK_WORKFLOW\" >> {} ;;\n\
         esac\n",
        list.replace(" list", " show 1"),
        calls.display()
    );
    let vik = scene.env.write("vik.sh", vik);
    std::fs::set_permissions(&vik, Permissions::from_mode(0o755)).unwrap();
    scene.env.link("vik", &vik);
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    assert_eq!(hub.outcomes(1), [Outcome::Succeeded]);
    scene.wait_for_state("done");
    let calls = std::fs::read_to_string(calls).unwrap();
    let [push, open] = calls.lines().collect::<Vec<_>>()[..] else {
        panic!("{calls}")
    };
    assert!(push.starts_with("git push --quiet --branch vik/1 "), "{push}");
    assert!(push.ends_with("/w/workflow.yml"), "{push}");
    assert!(open.starts_with("tracker output --from=todo -- "), "{open}");
    assert!(open.ends_with("/hub/workflow.yml"), "{open}");
    hub.stop();
    worker.stop();
}

#[test]
fn repeated_hand_over_asks_the_hub_again() {
    let Some(scene) = comment_scene(&format!("test -e go || exit 75; {COMMENT}")) else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    eventually("the command has failed", || {
        hub.output_notes()
            .first()
            .is_some_and(|note| note.progress == Progress::Failed)
    });
    std::fs::write(scene.path("go"), "").unwrap();
    scene.wait_for_state("done");
    assert_eq!((scene.comments(), worker.sessions()), (1, 1));
    assert_eq!(hub.output_notes()[0].progress, Progress::Applied);
    hub.stop();
    worker.stop();
}

#[test]
fn output_of_a_killed_hub_is_carried_out_once_by_the_next_one() {
    output_is_carried_out_once_after(&format!("{WAIT}; {COMMENT}"), 0);
}

#[test]
fn output_that_a_killed_hub_has_carried_out_is_not_repeated() {
    output_is_carried_out_once_after(&format!("{COMMENT}; {WAIT}"), 1);
}

fn output_is_carried_out_once_after(steps: &str, comments: usize) {
    let Some(scene) = comment_scene(steps) else {
        return;
    };
    let worker = scene.worker("w");
    let first = scene.hub("first");
    eventually("the command runs", || scene.path("up").exists());
    let second = scene.hub("second");
    second.wait_for("following");
    first.kill();
    second.wait_for("leading");
    assert_eq!(scene.comments(), comments, "the command has ended with its hub");
    std::fs::write(scene.path("go"), "").unwrap();
    scene.wait_for_state("done");
    assert_eq!(second.outcomes(1), [Outcome::Succeeded]);
    assert_eq!(second.hand_over_failure(), None);
    assert_eq!(scene.comments(), 1);
    assert_eq!(worker.sessions(), 1);
    let notes = second.output_notes();
    assert_eq!(notes[0].progress, Progress::Applied);
    // The ledger of the first hub gets the book from the log.
    let first = scene.hub("first");
    first.wait_for("following");
    eventually("the book is copied", || first.output_notes() == notes);
    first.stop();
    second.stop();
    worker.stop();
}
