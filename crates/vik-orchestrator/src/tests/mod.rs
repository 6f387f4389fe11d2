//! The loop against effects in memory: what is carried out, when, and what is not.

mod messages;
mod scene;
mod turns;
mod workers;
mod world;

use std::time::Duration;

use vik_api::{Action, StageState};
use vik_base::report::Exit;
use vik_core::changes::Changes;
use vik_core::ids::IssueId;
use vik_core::scheduler::{Command, CommandResult, Expired, TakeOver};

use self::scene::{Scene, SceneBuilder};
use self::world::{Script, stopped};
use crate::CommitFailure;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn once(stage: &'static str) -> SceneBuilder {
    SceneBuilder {
        stage,
        once: true,
        ..SceneBuilder::default()
    }
}

fn exit(scene: &Scene) -> Exit {
    scene.summary.as_ref().expect("the loop has ended").exit()
}

#[test]
fn issues_start_once_and_in_order() {
    let issues = [("a", Some(2)), ("b", Some(1)), ("c", None)];
    let mut scene = once("").start(&issues, &[Script::Succeeds(10 * SECOND); 3]);
    scene.pass(HOUR);
    assert_eq!(exit(&scene), Exit::Done);
    let world = scene.world();
    assert_eq!(world.starts(), ["b 1", "a 1", "c 1"]);
    assert_eq!(world.most_running, 1);
    assert!(world.pulls > 3, "each end of an attempt is followed by a pull");
    assert!(world.log.contains(&"remove b".to_owned()), "{:?}", world.log);
}

#[test]
fn limit_on_open_files_is_explained_and_all_work_is_done() {
    let builder = SceneBuilder {
        open_files: Some(312),
        max_issue_concurrency: 3,
        once: true,
        ..SceneBuilder::default()
    };
    let issues = [("a", None), ("b", None), ("c", None), ("d", None)];
    let mut scene = builder.start(&issues, &[Script::Succeeds(10 * SECOND); 4]);
    scene.pass(SECOND);
    let warnings = scene.world().warnings.clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("(312) allows only 2 sessions"),
        "{warnings:?}"
    );
    let waiting = scene.status().waiting;
    let expected = "the limit on open files allows 2 sessions (raise `LimitNOFILE=` or `ulimit -Hn`)";
    assert_eq!(
        (&*waiting[0].reason, &*waiting[0].detail),
        ("open_files", expected)
    );
    let stage = scene.explain("c").unwrap().stages.remove(0);
    let hold = stage.hold.unwrap();
    assert_eq!((&*hold.reason, &*hold.detail), ("open_files", expected));
    assert_eq!(stage.state, StageState::Waiting);
    scene.pass(HOUR);
    assert_eq!(exit(&scene), Exit::Done);
    assert_eq!(scene.world().most_running, 2);
    assert_eq!(scene.world().starts().len(), 4);
}

#[test]
fn failed_attempts_are_repeated_after_growing_waits() {
    let script = [
        Script::Fails(SECOND),
        Script::Fails(SECOND),
        Script::Succeeds(SECOND),
    ];
    let stage = "retry: { max_attempts: 3, initial_backoff: 10s }";
    let mut scene = once(stage).start(&[("a", None)], &script);
    scene.pass(HOUR);
    assert_eq!(exit(&scene), Exit::Done);
    let world = scene.world();
    assert_eq!(world.starts(), ["a 1", "a 2", "a 3"]);
    let gaps = world.started.windows(2).map(|pair| pair[1] - pair[0] - SECOND);
    let (gaps, waits) = (gaps.collect::<Vec<_>>(), &world.waits);
    assert_eq!(waits.len(), 2, "{waits:?}");
    assert!(waits[0] < waits[1], "{waits:?}");
    for (gap, wait) in gaps.iter().zip(waits) {
        assert!(*gap >= *wait && *gap < *wait + 3 * SECOND, "{gaps:?}, {waits:?}");
    }
}

#[test]
fn used_up_attempts_park_the_issue() {
    let stage = "retry: { max_attempts: 2, initial_backoff: 10s }";
    let mut scene = once(stage).start(&[("a", None)], &[Script::Fails(SECOND); 3]);
    scene.pass(HOUR);
    assert_eq!(exit(&scene), Exit::Failed);
    let world = scene.world();
    assert_eq!(world.starts(), ["a 1", "a 2"]);
    assert!(
        world.log.contains(&"park a attempts_used_up".to_owned()),
        "{:?}",
        world.log
    );
}

#[test]
fn cancelled_issue_is_stopped_and_does_not_start_again() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    let cancelled = scene.act(Action::Command(Command::Cancel(IssueId::new("a"))));
    assert!(matches!(cancelled, Ok(CommandResult::Done(1))), "{cancelled:?}");
    scene.pass(HOUR);
    assert!(scene.summary.is_none(), "the loop continues");
    assert_eq!(scene.world().log, ["start a 1", "stop a", "park a cancelled"]);
    let status = scene.status();
    assert!(status.sessions.is_empty());
    assert_eq!(status.parked.len(), 1);
}

#[test]
fn changes_of_a_person_are_recorded_before_their_hold_ends() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs, Script::Runs]);
    scene.pass(10 * SECOND);
    let issue = IssueId::new("a");
    let hand_back = || Action::HandBack {
        issue: IssueId::new("a"),
        message: None,
    };
    let refused = scene.act(hand_back());
    assert!(matches!(refused, Ok(CommandResult::NoEffect(_))), "{refused:?}");
    let request = TakeOver {
        issue,
        stage: None,
        wait: false,
    };
    let taken = scene.act(Action::Command(Command::TakeOver(request)));
    assert!(matches!(taken, Ok(CommandResult::Done(1))), "{taken:?}");
    scene.pass(HOUR);
    let status = scene.status();
    assert_eq!((status.taken_over.len(), status.taken_over[0].busy), (1, false));
    let returned = scene.act(hand_back());
    assert!(matches!(returned, Ok(CommandResult::Done(1))), "{returned:?}");
    scene.pass(HOUR);
    assert_eq!(
        scene.world().log,
        ["start a 1", "stop a", "record changes a", "start a 1"]
    );
}

#[test]
fn drain_waits_for_the_running_attempt_and_starts_nothing() {
    let issues = [("a", None), ("b", None)];
    let mut scene = SceneBuilder::default().start(&issues, &[Script::Succeeds(100 * SECOND)]);
    scene.pass(10 * SECOND);
    scene.act(Action::Command(Command::Drain)).unwrap();
    scene.pass(80 * SECOND);
    assert!(scene.summary.is_none(), "the attempt still runs");
    scene.pass(HOUR);
    assert!(scene.summary.as_ref().unwrap().drained);
    assert_eq!(scene.world().starts(), ["a 1"]);
}

#[test]
fn stop_ends_attempts_or_detaches_them() {
    for (keep_sessions, how) in [(false, "stop a"), (true, "detach a")] {
        let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs]);
        scene.pass(10 * SECOND);
        scene.act(Action::Stop { keep_sessions }).unwrap();
        scene.pass(SECOND);
        assert!(scene.summary.as_ref().unwrap().stopped);
        let world = scene.world();
        assert!(world.log.contains(&how.to_owned()), "{:?}", world.log);
        assert!(
            world.log.contains(&"state stopping".to_owned()),
            "{:?}",
            world.log
        );
    }
}

#[test]
fn failed_commit_carries_out_nothing_and_ends_the_loop() {
    let builder = SceneBuilder {
        fails: |changes| (!changes.started.is_empty()).then(stopped),
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None), ("b", None)], &[]);
    scene.pass(HOUR);
    assert!(scene.summary.as_ref().unwrap().broken.is_some());
    assert_eq!(scene.world().log, ["state failed"]);
}

#[test]
fn superseded_loop_starts_nothing_and_ends_without_a_failed_ledger() {
    let builder = SceneBuilder {
        fails: |changes| (!changes.started.is_empty()).then_some(CommitFailure::Superseded),
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None), ("b", None)], &[]);
    scene.pass(HOUR);
    let broken = scene.summary.take().unwrap().broken;
    assert!(matches!(broken, Some(CommitFailure::Superseded)), "{broken:?}");
    assert!(scene.world().log.is_empty(), "{:?}", scene.world().log);
}

#[test]
fn superseded_loop_leaves_its_attempts_to_the_other_hub() {
    let builder = SceneBuilder {
        fails: |changes| changes.paused.map(|_| CommitFailure::Superseded),
        // Such agents are stopped if the ledger fails.
        orphan_grace: Duration::ZERO,
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    let refused = scene.act(Action::Command(Command::Pause(None))).unwrap_err();
    assert!(refused.message.ends_with("another hub leads now"), "{refused:?}");
    assert!(scene.summary.is_some());
    assert_eq!(scene.world().log, ["start a 1", "detach a"]);
}

#[test]
fn failed_ledger_waits_for_attempts_and_a_superseded_loop_does_not() {
    let fails: [fn(&Changes) -> Option<CommitFailure>; 2] = [
        |changes| changes.paused.map(|_| stopped()),
        |changes| changes.paused.map(|_| CommitFailure::Superseded),
    ];
    for (fails, waits) in fails.into_iter().zip([true, false]) {
        let builder = SceneBuilder {
            fails,
            ..SceneBuilder::default()
        };
        let mut scene = builder.start(&[("a", None)], &[Script::Runs]);
        scene.pass(10 * SECOND);
        scene.world().ignores_commands = true;
        scene.act(Action::Command(Command::Pause(None))).unwrap_err();
        assert_eq!(scene.summary.is_none(), waits);
        scene.pass(HOUR);
        assert!(scene.summary.is_some(), "it does not wait for ever");
    }
}

#[test]
fn unchanged_pull_is_read_only_if_the_scheduler_has_learned_something() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs]);
    scene.pass(60 * SECOND);
    let pulls = scene.world().pulls;
    assert!(pulls > 10, "{pulls}");
    assert_eq!(scene.world().reads, 1);
    while !scene.world().is_pulling {
        scene.pass(world::PULL / 5);
    }
    scene.act(Action::Command(Command::Pause(None))).unwrap();
    scene.pass(30 * SECOND);
    assert_eq!(scene.world().reads, 2);
    assert!(scene.world().pulls > pulls + 10, "the pulls continue");
}

#[test]
fn old_data_is_searched_for_hourly_and_removed_in_steps() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs]);
    let found: Vec<_> = ["x", "y", "z", "a"]
        .map(|id| Expired::Sessions(id.into()))
        .into_iter()
        .chain([Expired::History])
        .collect();
    scene.world().expired.clone_from(&found);
    scene.pass(50 * SECOND);
    assert!(
        scene.world().scans.is_empty(),
        "recovery and the first pulls come first"
    );
    scene.pass(60 * SECOND);
    let removals = std::mem::take(&mut scene.world().removals);
    let (times, removed): (Vec<_>, Vec<_>) = removals.into_iter().unzip();
    assert_eq!(
        removed.len(),
        3,
        "nothing says to remove the ledger's, and `a` runs: {removed:?}"
    );
    assert_eq!(removed, found[..3]);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(200), "{times:?}");
    }
    scene.world().expired.clear();
    scene.pass(3 * HOUR);
    let scans = scene.world().scans.clone();
    assert_eq!(scans, [1; 4], "once an hour, with the listed issues");
    let view = scene.status().retention.unwrap();
    assert_eq!((&*view.sessions, &*view.ledger), ("90d", "keep"));
    assert!(view.last_scan_at.is_some());
}

#[test]
fn drained_loop_removes_nothing() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Succeeds(2 * HOUR)]);
    scene.world().expired.push(Expired::Scratch("x".into()));
    scene.pass(10 * SECOND);
    scene.act(Action::Command(Command::Drain)).unwrap();
    scene.pass(HOUR);
    assert!(scene.world().scans.is_empty() && scene.world().removals.is_empty());
}

#[test]
fn issue_that_comes_back_has_the_limits_of_its_life() {
    let builder = SceneBuilder {
        issue: "limits: { attempts: 2 }",
        ..SceneBuilder::default()
    };
    let script = [Script::Succeeds(SECOND); 3];
    let mut scene = builder.start(&[("a", None), ("b", None)], &script);
    scene.world().move_to("b", "done");
    for starts in 1..=2 {
        scene.pass(60 * SECOND);
        assert_eq!(scene.world().starts().len(), starts);
        assert!(scene.explain("a").is_none(), "only the ledger has it");
        scene.world().move_to("a", "todo");
    }
    scene.pass(60 * SECOND);
    assert_eq!(scene.world().starts(), ["a 1", "a 1"]);
    assert_eq!(scene.explain("a").unwrap().life.attempts, 2);
    assert!(
        scene.world().log.contains(&"park a issue_limit".to_owned()),
        "{:?}",
        scene.world().log
    );
}

#[test]
fn issue_that_the_ledger_cannot_read_ends_the_loop_without_a_start() {
    let builder = SceneBuilder {
        forgets: |issue| issue.as_str() == "a",
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None), ("b", None)], &[]);
    scene.pass(HOUR);
    assert!(scene.summary.as_ref().unwrap().broken.is_some());
    assert_eq!(scene.world().log, ["state failed"]);
}

/// Returns a daemon whose next pulls fail and ask for these waits, in seconds.
fn failing_pulls(builder: SceneBuilder, waits: &[u32]) -> Scene {
    let scene = builder.start(&[("a", None)], &[Script::Runs]);
    let waits = waits.iter().map(|wait| *wait * SECOND);
    scene.world().failing_pulls.extend(waits);
    scene
}

/// Returns the times between the starts of pulls, in seconds.
fn pull_gaps(scene: &Scene) -> Vec<u64> {
    let pulled = &scene.world().pulled;
    pulled
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs())
        .collect()
}

#[test]
fn failed_pulls_back_off_up_to_five_minutes_and_a_success_resets_that() {
    let mut scene = failing_pulls(SceneBuilder::default(), &[0; 10]);
    scene.pass(HOUR);
    let gaps = pull_gaps(&scene);
    assert_eq!(gaps[..10], [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert!(gaps[10..].iter().all(|gap| *gap == 2), "{gaps:?}");
    scene.world().failing_pulls.push_back(Duration::ZERO);
    let before = scene.world().pulls;
    scene.pass(10 * SECOND);
    assert!(
        scene.world().pulls > before + 2,
        "the first failure waits as usual"
    );
}

#[test]
fn failed_pull_is_not_repeated_before_the_time_that_its_command_names() {
    let mut scene = failing_pulls(SceneBuilder::default(), &[0, 100, 1]);
    scene.pass(5 * SECOND);
    let status = scene.status();
    let pull = status.last_pull.unwrap();
    let wait = pull.next_at.unwrap().duration_since(pull.at);
    assert_eq!((pull.ok, wait.as_secs()), (false, 100), "it is shown");
    scene.pass(HOUR);
    assert_eq!(pull_gaps(&scene)[..4], [2, 100, 8, 2]);
    assert_eq!(scene.status().last_pull.unwrap().next_at, None);
}

#[test]
fn refresh_pulls_at_once_while_pulls_back_off() {
    let mut scene = failing_pulls(SceneBuilder::default(), &[1000, 1000]);
    scene.pass(10 * SECOND);
    assert_eq!(scene.world().pulls, 1);
    scene.act(Action::Refresh).unwrap();
    scene.pass(SECOND);
    assert_eq!(scene.world().pulls, 2);
    scene.pass(100 * SECOND);
    assert_eq!(scene.world().pulls, 2, "the wait begins again");
}

#[test]
fn end_of_an_attempt_does_not_hasten_failing_pulls() {
    let script = [Script::Succeeds(100 * SECOND)];
    let mut scene = SceneBuilder::default().start(&[("a", None)], &script);
    scene.pass(50 * SECOND);
    scene.world().failing_pulls.push_back(1000 * SECOND);
    scene.pass(100 * SECOND);
    assert!(scene.status().sessions.is_empty(), "the attempt has ended");
    let pulls = scene.world().pulls;
    scene.pass(800 * SECOND);
    assert_eq!(scene.world().pulls, pulls);
    scene.pass(200 * SECOND);
    assert!(scene.world().pulls > pulls);
}

#[test]
fn attempt_that_ends_during_a_pull_is_followed_by_another_one() {
    // The second pull begins after 2.05 s.
    let script = [Script::Succeeds(Duration::from_millis(2020))];
    let mut scene = SceneBuilder::default().start(&[("a", None)], &script);
    scene.pass(3 * SECOND);
    let pulled = scene.world().pulled.clone();
    assert!(pulled.len() > 2 && pulled[2] - pulled[1] < SECOND, "{pulled:?}");
}

#[test]
fn once_ends_after_three_failed_pulls_or_a_long_wait() {
    for (waits, pulls) in [(&[0; 4][..], 3), (&[30, 30, 30], 3), (&[61, 0], 1), (&[0, 61], 2)] {
        let mut scene = failing_pulls(once(""), waits);
        scene.pass(70 * SECOND);
        assert_eq!(exit(&scene), Exit::NotFound, "{waits:?}");
        assert_eq!(scene.world().pulls, pulls, "{waits:?}");
    }
}
