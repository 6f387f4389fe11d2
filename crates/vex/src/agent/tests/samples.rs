//! Samples and tries of a model that writes its changes in fences.

use super::*;
use crate::agent::verify::Verify;
use crate::events::ExitReason;
use crate::provider::learned::LearnedForm;

/// A workspace with a file and a check that requires `right` in it.
fn scene(change: impl FnOnce(&mut Settings)) -> Scene {
    let mut scene = Scene::settings(|settings| {
        settings.verify = Some(Verify {
            attempts: 4,
            ..Verify::new("grep -q right a.txt && ! grep -q wrong a.txt")
        });
        change(settings);
    });
    scene.tool_calls = ToolCalls::Files;
    scene.task = "Correct a.txt.".to_owned();
    std::fs::write(scene.work().join("a.txt"), "start\n").unwrap();
    scene
}

fn file(content: &str) -> Turn {
    text_turn(&format!("I change it.\n\na.txt\n```\n{content}\n```"))
}

fn content(scene: &Scene) -> String {
    std::fs::read_to_string(scene.work().join("a.txt")).unwrap()
}

/// Returns the text of a request that consists of the first message alone.
fn only_message(played: &Played, number: usize) -> &str {
    match &played.seen[number][..] {
        [Message::User { text }] => text,
        other => panic!("request {number}: {other:#?}"),
    }
}

#[test]
fn first_message_shows_files_and_failing_check_and_one_answer_ends_the_run() {
    let scene = scene(|_| {});
    let played = scene.play_turns(vec![file("right")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert_eq!(played.seen.len(), 1);
    let text = only_message(&played, 0);
    for part in [
        "Correct a.txt.",
        "\na.txt\n```\nstart\n```",
        "fails now (exit code 1)",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(content(&scene), "right\n");
    let checks: Vec<_> = played.events("verify").map(|event| event["ok"] == true).collect();
    assert_eq!(checks, [false, true]);
    assert_eq!(played.events("tool_call").count(), 1);
}

#[test]
fn failed_check_restores_the_files_and_every_second_one_keeps_them() {
    let scene = scene(|_| {});
    let played = scene.play_turns(vec![file("wrong 1"), file("wrong 2"), file("right")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(only_message(&played, 1).contains("\nstart\n"));
    assert!(only_message(&played, 2).contains("\nwrong 2\n"));
    let reasons: Vec<_> = played
        .events("guard")
        .map(|event| event["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        reasons,
        ["the check failed; the files were restored", "the check failed"]
    );
}

#[test]
fn answer_without_a_change_restores_the_files_that_a_failed_check_left() {
    let scene = scene(|_| {});
    let turns = ["wrong 1", "wrong 2", "wrong 2", "right"].map(file);
    let played = scene.play_turns(turns.into());
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(only_message(&played, 2).contains("\nwrong 2\n"));
    assert!(only_message(&played, 3).contains("\nstart\n"));
}

#[test]
fn next_sample_knows_why_a_command_failed() {
    let scene = scene(|_| {});
    let answer = "a.txt\n```\nwrong\n```\n\n```sh\necho no folder >&2; exit 1\n```";
    let played = scene.play_turns(vec![text_turn(answer), file("wrong 2"), file("right")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    let note = "A command of your last answer failed: no folder";
    assert!(only_message(&played, 1).contains(note), "{:#?}", played.seen[1]);
    assert!(!only_message(&played, 2).contains(note));
}

#[test]
fn answer_that_was_cut_off_is_followed_by_another_sample() {
    let scene = scene(|_| {});
    let endless = Turn {
        stop: StopReason::MaxTokens,
        ..text_turn("The files, whole:")
    };
    let played = scene.play_turns(vec![endless, file("right")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(only_message(&played, 1).contains("Correct a.txt."));
}

#[test]
fn empty_answer_is_another_sample_and_counts() {
    let empty = || Err(ProviderError::Empty("the answer is empty".to_owned()));
    let scene = scene(|_| {});
    let played = scene.play(|number, _| match number {
        0 => empty(),
        _ => Ok(file("right")),
    });
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(only_message(&played, 1).contains("no file and no command"));

    let scene = self::scene(|settings| {
        settings.limits.tokens = Some(4000);
        settings.more_tries = 1;
    });
    let played = scene.play(|_, _| empty());
    assert_eq!(played.ending.reason, ExitReason::Limit);
    assert_eq!(played.seen.len(), 3, "a fourth request would exceed the limit");
    let last = played.events("usage").last().unwrap();
    assert_eq!(last["input_tokens"], 3000);

    let scene = self::scene(|settings| settings.more_tries = 1);
    let played = scene.play(|_, _| empty());
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    assert_eq!(played.seen.len(), 14, "two tries with six fresh starts each");
}

#[test]
fn empty_answer_of_a_large_model_counts_and_the_conversation_goes_on() {
    let play = |turns| {
        let scene = Scene::turns(turns);
        scene.play(|number, _| match number {
            0 => Err(ProviderError::Empty("the answer is empty".to_owned())),
            _ => Ok(text_turn(REPORT)),
        })
    };
    let played = play(2);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(last_user(&played.seen[1]).contains("Your answer was empty."));
    let played = play(1);
    assert_eq!(played.ending.reason, ExitReason::Limit);
    assert_eq!(played.seen.len(), 1);
}

#[test]
fn check_that_keeps_failing_is_no_success() {
    let scene = scene(|_| {});
    let played = scene.play(|number, _| Ok(file(&format!("wrong {number}"))));
    assert_eq!(played.ending.reason, ExitReason::Failed);
    assert_eq!(played.ending.class.as_deref(), Some("verify"));
    assert_eq!(played.seen.len(), 4);
}

#[test]
fn answer_without_a_change_is_another_sample_and_no_failed_check() {
    let scene = scene(|_| {});
    let played = scene.play_turns(vec![
        text_turn(""),
        text_turn("You should write right into the file."),
        text_turn("```\nright\n```"),
        // The content is what stands there already.
        file("start"),
        file("right"),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert!(only_message(&played, 1).contains("no file and no command"));
    assert!(only_message(&played, 2).contains("no file and no command"));
    assert!(only_message(&played, 3).contains("a fence without a path"));
    assert!(only_message(&played, 4).contains("has this content already"));
    let played = scene.play(|_, _| Ok(text_turn("It should be right in this file.")));
    assert_eq!(
        played.ending.reason,
        ExitReason::Done,
        "the check passes without a change"
    );
    std::fs::write(scene.work().join("a.txt"), "start\n").unwrap();
    let played = scene.play(|_, _| Ok(text_turn("It should be right in this file.")));
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    assert_eq!(played.seen.len(), 7);
}

#[test]
fn command_that_only_reads_continues_the_conversation() {
    let scene = scene(|_| {});
    let played = scene.play_turns(vec![
        text_turn("```sh\ncat a.txt\n```"),
        text_turn("```sh\necho right > a.txt\n```"),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert_eq!(played.seen[1].len(), 3);
    assert_eq!(content(&scene), "right\n");
}

#[test]
fn further_try_starts_with_the_first_files_and_all_turns_count() {
    let scene = scene(|settings| {
        settings.more_tries = 1;
        settings.verify.as_mut().unwrap().attempts = 1;
    });
    std::fs::write(scene.work().join("b.txt"), "b\n").unwrap();
    let broken = text_turn("a.txt\n```\nwrong\n```\n```sh\nrm b.txt; echo n > new.txt\n```");
    let played = scene.play_turns(vec![broken, file("right")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(scene.work().join("b.txt").exists() && !scene.work().join("new.txt").exists());
    assert!(only_message(&played, 1).contains("\nstart\n"));
    let reason = played.events("guard").next().unwrap()["message"]
        .as_str()
        .unwrap();
    assert!(reason.starts_with("try 2 of 2: the verify command"), "{reason}");

    let scene = self::scene(|settings| {
        settings.more_tries = 9;
        settings.verify.as_mut().unwrap().attempts = 1;
        settings.limits.turns = NonZeroU32::new(3);
    });
    let played = scene.play(|_, _| Ok(file("wrong")));
    assert_eq!(played.ending.reason, ExitReason::Limit);
    assert_eq!(played.seen.len(), 3);
}

#[test]
fn tries_work_with_calls_of_the_protocol() {
    let mut scene = scene(|settings| {
        settings.more_tries = 1;
        settings.verify.as_mut().unwrap().attempts = 1;
    });
    scene.tool_calls = ToolCalls::Native;
    let played = scene.play_turns(vec![
        sh("echo wrong > a.txt; git init -q"),
        text_turn("I have written the file as it must be."),
        sh("echo right >> a.txt"),
        text_turn("I have written the file as it must be."),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert_eq!(content(&scene), "start\nright\n");
    assert_eq!(played.seen[2].len(), 1);
}

#[test]
fn without_a_check_the_answer_of_the_model_ends_the_run() {
    let scene = scene(|settings| settings.verify = None);
    let played = scene.play_turns(vec![file("right"), text_turn("The file is corrected.")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert_eq!(played.seen[1].len(), 3);
}

#[test]
fn file_that_contains_fences_is_written_whole_or_not_at_all() {
    let scene = scene(|settings| settings.verify = None);
    let readme = "# Use\n\n```bash\nls\n```\n";
    let played = scene.play_turns(vec![
        text_turn(&format!("a.txt\n```\nright\n```\n\nREADME.md\n```\n{readme}")),
        text_turn(&format!("README.md\n````\n{readme}````")),
        text_turn("Both files are written."),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert_eq!(content(&scene), "right\n");
    let written = std::fs::read_to_string(scene.work().join("README.md")).unwrap();
    assert_eq!(written, readme);
    let failed = played
        .events("tool_result")
        .filter(|event| event["is_error"] == true);
    assert_eq!(failed.count(), 1);
}

#[test]
fn file_that_was_not_shown_is_in_the_next_sample_and_its_note_names_no_tool() {
    // The room is taken by the files that the task names.
    let mut scene = scene(|settings| settings.verify = None);
    scene.task = "Correct b.txt.".to_owned();
    std::fs::write(scene.work().join("a.txt"), "start\n".repeat(1000)).unwrap();
    std::fs::write(scene.work().join("b.txt"), "b\n".repeat(4000)).unwrap();
    let played = scene.play_turns(vec![
        file("right"),
        file("right"),
        text_turn("The file is corrected."),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(only_message(&played, 0).contains("Other files: a.txt"));
    let text = only_message(&played, 1);
    assert!(
        text.contains("a.txt was not shown to you, so it was not replaced"),
        "{text}"
    );
    assert!(text.contains("\na.txt\n```\nstart\n"), "{text}");
    assert!(!text.contains("edit_file") && !text.contains("read it"), "{text}");
    assert_eq!(content(&scene), "right\n");
}

#[test]
fn shown_files_take_at_most_a_quarter_of_the_context() {
    let mut scene = scene(|_| {});
    scene.task = "Correct a.txt, b.txt and c.txt.".to_owned();
    std::fs::write(scene.work().join("b.txt"), "b ".repeat(1500)).unwrap();
    std::fs::write(scene.work().join("c.txt"), "c ".repeat(4000)).unwrap();
    for (window, others) in [
        (None, &[][..]),
        (Some(65_536), &[][..]),
        (Some(4096), &["c.txt"][..]),
        (Some(2048), &["b.txt c.txt"][..]),
    ] {
        scene.window = window;
        let played = scene.play_turns(vec![file("right")]);
        let text = only_message(&played, 0);
        let listed: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("Other files: "))
            .collect();
        assert_eq!(listed, others, "{window:?}");
        assert!(text.contains("\na.txt\n```\n"));
        std::fs::write(scene.work().join("a.txt"), "start\n").unwrap();
    }
}

#[test]
fn large_file_is_not_replaced_by_a_model_that_has_not_seen_it() {
    let scene = scene(|_| {});
    std::fs::write(scene.work().join("a.txt"), "x\n".repeat(10_000)).unwrap();
    let played = scene.play_turns(vec![file("right")]);
    assert_ne!(played.ending.reason, ExitReason::Done);
    assert!(content(&scene).len() > 10_000);
    assert!(only_message(&played, 0).contains("Other files: a.txt"));
}

#[test]
fn unknown_model_that_writes_calls_as_text_writes_files_from_then_on() {
    let mut scene = scene(|_| {});
    scene.tool_calls = ToolCalls::Native;
    scene.settings.learn = LearnedForm::at(scene.dir.path().join("models.json"), "model");
    let mut as_text = sh("echo wrong > a.txt");
    for block in &mut as_text.blocks {
        if let Block::ToolCall(call) = block {
            call.repaired = true;
        }
    }
    let played = scene.play_turns(vec![as_text, file("right")]);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert_eq!(played.seen[1].len(), 1);
    let learnt = scene.settings.learn.as_ref().unwrap().remembered();
    assert_eq!(learnt, Some(ToolCalls::Files));
    // A native call leaves the form as it is.
    let played = scene.play_turns(vec![sh("echo more"), text_turn("I am done with it.")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    let learnt = scene.settings.learn.as_ref().unwrap().remembered();
    assert_eq!(learnt, Some(ToolCalls::Native));
}

#[test]
fn explanation_with_code_by_an_unknown_model_is_kept_and_shows_no_form() {
    let mut scene = Scene::settings(|_| {});
    scene.settings.learn = LearnedForm::at(scene.dir.path().join("models.json"), "model");
    let answer = "The function adds both numbers:\n```python\na + b\n```\nNothing is to be changed.";
    let played = scene.play_turns(vec![text_turn(answer)]);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert_eq!(played.seen.len(), 1);
    assert_eq!(scene.settings.learn.as_ref().unwrap().remembered(), None);
}

#[test]
fn whole_file_that_leaves_out_a_definition_is_another_sample() {
    let mut scene = scene(|settings| settings.verify = Some(Verify::new("grep -q is_even a.py")));
    scene.task = "Add is_even to a.py, and remove old.".to_owned();
    let before = "def double(n):\n    return 2 * n\n\ndef old():\n    pass\n";
    std::fs::write(scene.work().join("a.py"), before).unwrap();
    let file = |content: &str| text_turn(&format!("a.py\n```python\n{content}\n```"));
    let played = scene.play_turns(vec![
        file("def is_even(n):\n    return n % 2 == 0"),
        file("def double(n):\n    return 2 * n\n\ndef is_even(n):\n    return n % 2 == 0"),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(only_message(&played, 1).contains("it left out `double` of a.py"));
    assert_eq!(played.events("tool_call").count(), 1);
}

#[test]
fn failing_command_that_changed_a_file_is_checked() {
    let scene = scene(|_| {});
    let played = scene.play_turns(vec![text_turn("```sh\necho right > a.txt; false\n```")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
}

#[test]
fn commit_is_a_change() {
    let mut scene =
        scene(|settings| settings.verify = Some(Verify::new("test -z \"$(git status --porcelain)\"")));
    scene.task = "Commit a.txt.".to_owned();
    let git = "git init -q .; git config user.name n; git config user.email e@e; git commit -q --allow-empty -m one";
    let done = std::process::Command::new("sh")
        .args(["-ec", git])
        .current_dir(scene.work())
        .status();
    assert!(done.unwrap().success());
    let played = scene.play_turns(vec![text_turn("```sh\ngit add a.txt && git commit -qm two\n```")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
}

#[test]
fn background_commands_end_before_the_files_are_restored() {
    let mut scene = scene(|settings| {
        settings.more_tries = 1;
        settings.verify.as_mut().unwrap().attempts = 1;
    });
    scene.tool_calls = ToolCalls::Native;
    let server = "trap '' TERM; mkfifo wait; echo $$ > ../pid; read line < wait";
    let started = "until [ -s ../pid ]; do :; done";
    let mut turns = vec![
        calls(&[("run_command", json!({"command": server, "background": true}))]),
        sh(started),
        text_turn("I have written the file as it must be."),
        sh("echo right >> a.txt"),
        text_turn("I have written the file as it must be."),
    ]
    .into_iter();
    let pid = scene.dir.path().join("pid");
    let mut was_alive = None;
    let played = scene.play(|number, _| {
        if number == 3 {
            let pid = std::fs::read_to_string(&pid).unwrap();
            was_alive = Some(std::path::Path::new("/proc").join(pid.trim()).exists());
        }
        Ok(turns.next().unwrap())
    });
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert_eq!(was_alive, Some(false));
    assert!(!scene.work().join("wait").exists());
}

#[test]
fn next_sample_gets_the_command_that_the_task_names() {
    for task in ["Run python3 a_test.py.", "Run `env a_test.py`."] {
        let mut scene = scene(|_| {});
        scene.task = task.to_owned();
        let played = scene.play_turns(vec![text_turn("```sh\na_test.py\n```"), file("right")]);
        assert_eq!(played.ending.reason, ExitReason::Done);
        let command = task.trim_start_matches("Run ").trim_matches(['.', '`']);
        let note = format!("There is no such program. The task names this command: `{command}`");
        assert!(only_message(&played, 1).contains(&note), "{:#?}", played.seen[1]);
    }
}

#[test]
fn verified_work_stays_when_a_message_of_a_person_leads_to_a_failure() {
    let scene = scene(|_| {});
    let inbox = scene.inbox.clone();
    let mut turns = vec![file("right"), file("wrong"), file("right 2")].into_iter();
    let mut files = Vec::new();
    let played = scene.play(|number, _| {
        files.push(content(&scene));
        if number == 0 {
            inbox.deliver(PersonMessage {
                id: "m1".to_owned(),
                text: "Once more.".to_owned(),
                interrupt: false,
            });
        }
        Ok(turns.next().unwrap())
    });
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert_eq!(files, ["start\n", "right\n", "right\n"]);
}

#[test]
fn model_that_is_learnt_to_write_files_is_shown_the_failing_check() {
    let mut scene = scene(|_| {});
    scene.tool_calls = ToolCalls::Native;
    scene.settings.learn = LearnedForm::at(scene.dir.path().join("models.json"), "model");
    let mut as_text = sh("cat a.txt");
    for block in &mut as_text.blocks {
        if let Block::ToolCall(call) = block {
            call.repaired = true;
        }
    }
    let played = scene.play_turns(vec![as_text, file("wrong"), file("right")]);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    for number in [1, 2] {
        assert!(only_message(&played, number).contains("fails now (exit code 1)"));
    }
}

#[test]
fn run_ends_with_the_place_of_the_copy_when_files_cannot_be_restored() {
    let mut scene = scene(|settings| {
        settings.more_tries = 1;
        settings.verify.as_mut().unwrap().attempts = 1;
    });
    scene.tool_calls = ToolCalls::Native;
    let snapshots = scene.dir.path().join("snapshots");
    let mut copy = None;
    let played = scene.play(|number, _| {
        if number == 0 {
            let entries = std::fs::read_dir(&snapshots).unwrap();
            let path = entries
                .map(|entry| entry.unwrap().path())
                .find(|path| path.is_dir());
            std::fs::remove_dir_all(path.as_ref().unwrap()).unwrap();
            copy = path;
            return Ok(sh("echo wrong > a.txt"));
        }
        Ok(text_turn("I have written the file as it must be."))
    });
    assert_eq!(played.ending.reason, ExitReason::Failed);
    let message = played.ending.message.unwrap();
    let place = format!(
        "the files as they were at first are in {}",
        copy.unwrap().display()
    );
    assert!(message.ends_with(&place), "{message}");
}

#[test]
fn brief_answer_without_a_change_is_another_sample() {
    let scene = scene(|_| {});
    let turns = vec![
        text_turn("No changes needed."),
        text_turn("No change."),
        file("right"),
    ];
    let played = scene.play_turns(turns);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert!(only_message(&played, 2).contains("Correct a.txt."));
}

#[test]
fn file_that_the_last_answer_wrote_unseen_is_shown_next() {
    let scene = scene(|_| {});
    for number in 0..12 {
        std::fs::write(scene.work().join(format!("b{number}.txt")), "b".repeat(1500)).unwrap();
    }
    std::fs::create_dir(scene.work().join("z")).unwrap();
    std::fs::write(scene.work().join("z/u.txt"), "unseen\n".repeat(500)).unwrap();
    let turns = vec![text_turn("z/u.txt\n```\nseen\n```"), file("right")];
    let played = scene.play_turns(turns);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert!(!only_message(&played, 0).contains("\nunseen"));
    assert!(only_message(&played, 1).contains("\nunseen"));
}

#[test]
fn last_content_of_a_file_that_is_written_twice_decides() {
    let scene = scene(|_| {});
    std::fs::write(scene.work().join("a.txt"), "def keep(): pass\nstart\n").unwrap();
    let twice = text_turn("a.txt\n```\ndef keep(): pass\nright\n```\n\na.txt\n```\nright\n```");
    let played = scene.play_turns(vec![twice, file("def keep(): pass\nright")]);
    assert_eq!(played.ending.reason, ExitReason::Done, "{:?}", played.ending);
    assert_eq!(content(&scene), "def keep(): pass\nright\n");
}
