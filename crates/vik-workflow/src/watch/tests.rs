//! Tests of the ways in which a save, a loss or a mistake can reach the files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;
use vik_core::workflow::{PromptSource, WorkspaceRoot};

use super::*;

/// Far longer than any of these operations takes.
const DEADLINE: Duration = Duration::from_secs(60);

const WORKFLOW: &str = "\
agents: {coder: {runtime: codex, model: m, env: {TOKEN: first}}}
issues: {pull: {command: x}}
issue:
  stages:
    plan: {when: {state: todo}, agent: coder, prompt_file: prompts/plan.md, timeout: 1h}
";

struct Scene {
    folder: TempDir,
    watch: Watch,
}

impl Scene {
    fn new() -> Self {
        Self::seeing(|_, running| Watch::start(running).unwrap())
    }

    fn blind() -> Self {
        Self::seeing(|_, running| {
            Watch::with(running, |_| DirWatcher::closed(), Duration::from_millis(20)).unwrap()
        })
    }

    fn seeing(watch: impl FnOnce(&Path, LoadedWorkflow) -> Watch) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("flow/prompts")).unwrap();
        fs::write(folder.path().join("flow/workflow.yml"), WORKFLOW).unwrap();
        fs::write(folder.path().join("flow/prompts/plan.md"), "one\ntwo\n").unwrap();
        let loaded = WorkflowFile::valid(&folder.path().join("flow/workflow.yml"), |_| {}).unwrap();
        let watch = watch(folder.path(), loaded);
        Self { folder, watch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("flow").join(name)
    }

    /// Saves in one step, so that there is one reload.
    fn write(&self, name: &str, text: &str) {
        let new = self.folder.path().join("saved");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    /// Saves the workflow with another timeout.
    fn edit(&self, timeout: &str) {
        self.write("workflow.yml", &edited(timeout));
    }

    async fn next(&mut self) -> Reload {
        tokio::time::timeout(DEADLINE, self.watch.next())
            .await
            .expect("the change is seen")
    }

    /// Waits until the workflow has this timeout: a save may be detected in two steps.
    async fn until_timeout(&mut self, timeout: &str) -> LoadedWorkflow {
        loop {
            if let Reload::Good { loaded, .. } = self.next().await
                && loaded.workflow.issue.stages[0].timeout.to_string() == timeout
            {
                return *loaded;
            }
        }
    }

    async fn until_bad(&mut self, code: &str) {
        loop {
            if let Reload::Bad(rejected) = self.next().await
                && rejected.failure.code() == code
            {
                return;
            }
        }
    }

    /// Waits until all changes up to now are processed, and returns their reloads.
    async fn settled(&mut self) -> Vec<Reload> {
        let mut reloads = Vec::new();
        loop {
            self.watch.refresh();
            match self.next().await {
                Reload::Unchanged => return reloads,
                reload => reloads.push(reload),
            }
        }
    }
}

fn edited(timeout: &str) -> String {
    WORKFLOW.replace("timeout: 1h", &format!("timeout: {timeout}"))
}

fn edit_texts(reload: &Reload) -> Vec<String> {
    match reload {
        Reload::Good { edits, .. } => edits.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn edit_reports_the_changed_keys_without_secrets() {
    let mut scene = Scene::new();
    scene.write(
        "workflow.yml",
        &edited("2h").replace("TOKEN: first", "TOKEN: second"),
    );
    let reload = scene.next().await;
    assert_eq!(
        edit_texts(&reload),
        [
            "agents.coder.env.TOKEN: changed",
            "issue.stages.plan.timeout: 1h -> 2h"
        ]
    );
    assert!(!format!("{:?}", edit_texts(&reload)).contains("second"));
}

#[tokio::test]
async fn prompt_file_is_part_of_the_workflow() {
    let mut scene = Scene::new();
    scene.write("prompts/plan.md", "one\ntwo\nthree\n");
    let reload = scene.next().await;
    assert_eq!(edit_texts(&reload), ["prompts/plan.md: changed (2 -> 3 lines)"]);
    let Reload::Good { loaded, .. } = reload else {
        unreachable!()
    };
    // The loaded workflow keeps its texts, whatever happens to the files.
    fs::remove_file(scene.path("prompts/plan.md")).unwrap();
    let prompt = PromptSource::File("prompts/plan.md".to_owned());
    let source = loaded.prompts.source(&scene.path(""), &prompt);
    assert_eq!(source.as_deref(), Ok("one\ntwo\nthree\n"));
    scene.until_bad("workflow_invalid").await;
    scene.write("prompts/plan.md", "one\ntwo\nthree\n");
    assert_eq!(edit_texts(&scene.next().await), Vec::<String>::new());
    let missing = PromptSource::File("prompts/other.md".to_owned());
    assert!(
        loaded
            .prompts
            .source(&scene.path(""), &missing)
            .unwrap_err()
            .contains("other.md")
    );
}

#[tokio::test]
async fn invalid_edit_is_reported_once_until_it_is_fixed() {
    let mut scene = Scene::new();
    scene.write("workflow.yml", &WORKFLOW.replace("agent: coder", "agent: nobody"));
    let Reload::Bad(rejected) = scene.next().await else {
        panic!("it is bad")
    };
    assert_eq!(rejected.failure.code(), "workflow_invalid");
    let [finding] = rejected.findings.as_slice() else {
        panic!("{:?}", rejected.findings)
    };
    assert_eq!(finding, "workflow.yml:5:40: error: unknown agent `nobody`");
    scene.write("workflow.yml", &WORKFLOW.replace("agent: coder", "agent: nobody"));
    assert!(scene.settled().await.is_empty(), "the same again is no news");
    scene.write("workflow.yml", WORKFLOW);
    assert_eq!(edit_texts(&scene.next().await), Vec::<String>::new());
    // Template errors are detected as in `run`.
    scene.write("prompts/plan.md", "{{ issue.title");
    scene.until_bad("workflow_invalid").await;
}

#[tokio::test]
async fn save_by_rename_or_in_place_is_detected_each_time() {
    let mut scene = Scene::new();
    for (first, second) in [("2h", "3h"), ("4h", "5h")] {
        fs::write(scene.path(".workflow.yml.swp"), edited(first)).unwrap();
        fs::rename(scene.path(".workflow.yml.swp"), scene.path("workflow.yml")).unwrap();
        scene.until_timeout(first).await;
        fs::write(scene.path("workflow.yml"), edited(second)).unwrap();
        scene.until_timeout(second).await;
    }
}

#[tokio::test]
async fn removed_and_recreated_file_is_detected() {
    let mut scene = Scene::new();
    fs::remove_file(scene.path("workflow.yml")).unwrap();
    scene.until_bad("workflow_unreadable").await;
    scene.edit("2h");
    scene.until_timeout("2h").await;
    scene.edit("3h");
    scene.until_timeout("3h").await;
}

#[tokio::test]
async fn removed_and_recreated_folder_is_detected() {
    let mut scene = Scene::new();
    fs::remove_dir_all(scene.path("")).unwrap();
    scene.until_bad("workflow_unreadable").await;
    fs::create_dir_all(scene.path("prompts")).unwrap();
    scene.write("prompts/plan.md", "new\n");
    scene.edit("2h");
    scene.until_timeout("2h").await;
    scene.edit("3h");
    scene.until_timeout("3h").await;
    fs::rename(scene.path(""), scene.folder.path().join("elsewhere")).unwrap();
    scene.until_bad("workflow_unreadable").await;
    fs::rename(scene.folder.path().join("elsewhere"), scene.path("")).unwrap();
    scene.until_timeout("3h").await;
}

#[tokio::test]
async fn prompt_file_in_a_new_folder_is_awaited() {
    let mut scene = Scene::new();
    let text = edited("2h").replace("prompts/plan.md", "new/deep/plan.md");
    scene.write("workflow.yml", &text);
    scene.until_bad("workflow_invalid").await;
    fs::create_dir_all(scene.path("new/deep")).unwrap();
    scene.write("new/deep/plan.md", "text\n");
    scene.until_timeout("2h").await;
    scene.write("new/deep/plan.md", "other\ntext\n");
    assert_eq!(
        edit_texts(&scene.next().await),
        ["new/deep/plan.md: changed (1 -> 2 lines)"]
    );
}

#[tokio::test]
async fn link_with_a_changed_target_is_followed() {
    let mut scene = Scene::new();
    fs::create_dir(scene.path("a")).unwrap();
    fs::create_dir(scene.path("b")).unwrap();
    scene.write("a/workflow.yml", &edited("2h"));
    scene.write("b/workflow.yml", &edited("3h"));
    symlink("a", scene.path("now")).unwrap();
    symlink("now/workflow.yml", scene.path("link.yml")).unwrap();
    fs::rename(scene.path("link.yml"), scene.path("workflow.yml")).unwrap();
    scene.until_timeout("2h").await;
    symlink("b", scene.path("next")).unwrap();
    fs::rename(scene.path("next"), scene.path("now")).unwrap();
    scene.until_timeout("3h").await;
    scene.write("b/workflow.yml", &edited("4h"));
    scene.until_timeout("4h").await;
}

#[tokio::test]
async fn files_are_polled_without_file_events() {
    let mut scene = Scene::blind();
    scene.edit("2h");
    scene.until_timeout("2h").await;
    fs::remove_file(scene.path("workflow.yml")).unwrap();
    scene.until_bad("workflow_unreadable").await;
    scene.edit("3h");
    scene.until_timeout("3h").await;
    scene.write("prompts/plan.md", "one\n");
    assert_eq!(
        edit_texts(&scene.next().await),
        ["prompts/plan.md: changed (2 -> 1 line)"]
    );
}

#[tokio::test]
async fn change_before_the_watch_started_is_reported() {
    let mut scene = Scene::seeing(|folder, running| {
        fs::write(folder.join("flow/workflow.yml"), edited("2h")).unwrap();
        Watch::start(running).unwrap()
    });
    scene.until_timeout("2h").await;
}

#[tokio::test]
async fn irrelevant_changes_are_not_reported() {
    let mut scene = Scene::new();
    scene.write("notes.txt", "x");
    scene.write("workflow.yml", WORKFLOW);
    fs::create_dir(scene.path("other")).unwrap();
    assert!(scene.settled().await.is_empty());
    // The text differs, but the workflow does not.
    scene.write("workflow.yml", &format!("# a note\n{WORKFLOW}"));
    assert_eq!(edit_texts(&scene.next().await), Vec::<String>::new());
}

#[tokio::test]
async fn key_that_needs_a_restart_keeps_its_value() {
    let mut scene = Scene::new();
    let moved = |timeout: &str| format!("workspace: {{root: elsewhere}}\n{}", edited(timeout));
    scene.write("workflow.yml", &moved("2h"));
    let Reload::Good { loaded, edits, .. } = scene.next().await else {
        panic!("it is good")
    };
    assert_eq!(loaded.workflow.workspace_root, WorkspaceRoot::BesideWorkflow);
    let waiting: Vec<_> = edits.iter().filter(|edit| edit.needs_restart).collect();
    assert_eq!(waiting.len(), 1, "{edits:?}");
    assert_eq!(waiting[0].path, "workspace.root");
    // The edit is reported again while it needs a restart, and no longer.
    scene.write("workflow.yml", &moved("3h"));
    assert_eq!(edit_texts(&scene.next().await).len(), 2);
    scene.edit("3h");
    assert_eq!(edit_texts(&scene.next().await), Vec::<String>::new());
}

#[tokio::test]
async fn reload_carries_the_warnings_of_the_workflow() {
    let mut scene = Scene::new();
    scene.write("workflow.yml", &format!("no_such_key: 1\n{WORKFLOW}"));
    let Reload::Good { warnings, .. } = scene.next().await else {
        panic!("it is good")
    };
    assert!(warnings.contains("no_such_key"), "{warnings}");
}

#[test]
fn events_of_other_files_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("workflow.yml");
    fs::write(&file, "x").unwrap();
    let mut dir_watcher = DirWatcher::closed();
    dir_watcher.aim([&file]);
    assert!(dir_watcher.concern(&[]));
    assert!(dir_watcher.concern(std::slice::from_ref(&file)));
    assert!(dir_watcher.concern(&[folder.path().to_owned()]));
    assert!(!dir_watcher.concern(&[folder.path().join("build.log")]));
    assert!(!dir_watcher.concern(&[folder.path().join("workflow.yml.swp")]));
}
