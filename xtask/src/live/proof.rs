//! `cargo xtask live --check-tasks`: proves that each task can be solved, and that no check passes
//! before it is.

use std::path::Path;

use super::languages::Toolchains;
use super::tasks::{Group, Task, run_script};
use crate::repo::{self, Context as _, TaskResult};

/// Checks the tasks in `dir`, and prints the result of each.
pub fn run(tasks: &[Task], toolchains: &Toolchains, dir: &Path) -> TaskResult {
    let mut failures = Vec::new();
    for task in tasks {
        if let Some(language) = task.lacks(toolchains) {
            println!("skipped: {}: {language} is not installed", task.name);
            continue;
        }
        match prove(task, toolchains, dir) {
            Ok(()) => println!("{}", task.name),
            Err(error) => failures.push(format!("{}: {error}", task.name)),
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("\n"))
}

/// Checks that a task's verify command and hidden check fail on its files, and pass after its
/// solution.
fn prove(task: &Task, toolchains: &Toolchains, dir: &Path) -> TaskResult {
    let place = dir.join(&task.name);
    let verify = task.verify.as_deref();
    // The hidden check comes last: it may add files.
    let scripts = verify.into_iter().map(|verify| ("verify.sh", verify));
    let scripts: Vec<_> = scripts.chain([("check.sh", task.check.as_str())]).collect();
    lay_out(task, &place)?;
    for (name, script) in &scripts {
        let output = run_script(script, &place, toolchains).context(format!("cannot run {name}"))?;
        if output.status.success() {
            return Err(format!("{name} passes on the untouched files"));
        }
    }
    match &task.solution {
        Some(solution) => {
            lay_out(task, &place)?;
            repo::run(
                repo::program("git")
                    .arg("-C")
                    .arg(&place)
                    .arg("apply")
                    .arg(solution),
            )?;
            for (name, script) in &scripts {
                let output = run_script(script, &place, toolchains).context(format!("cannot run {name}"))?;
                if !output.status.success() {
                    let stdout = String::from_utf8_lossy(&output.stdout);
                    let stderr = String::from_utf8_lossy(&output.stderr);
                    return Err(format!("{name} fails on the solution:\n{stdout}{stderr}"));
                }
            }
        }
        None if task.group == Group::Work => return Err("no solution.patch".to_owned()),
        None => {}
    }
    std::fs::remove_dir_all(&place).context(format!("cannot remove {}", place.display()))
}

fn lay_out(task: &Task, place: &Path) -> TaskResult {
    if place.exists() {
        std::fs::remove_dir_all(place).context(format!("cannot remove {}", place.display()))?;
    }
    task.lay_out(place)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::languages::Language;
    use super::super::tasks;
    use super::*;

    /// Proves the tasks of one language, or the small ones.
    fn check(language: Option<Language>) {
        let installed = std::env::var_os("VIK_LIVE_DIR").map(PathBuf::from);
        let toolchains = Toolchains::find(&installed.unwrap_or_else(|| repo::root().join("target/live")));
        if let Some(language) = language.filter(|&language| !toolchains.has(language)) {
            vik_testkit::report_skipped(&format!("{language} is not installed"));
            return;
        }
        let mut tasks = tasks::load(None, &[]).unwrap();
        tasks.retain(|task| task.language == language);
        assert!(!tasks.is_empty());
        let dir = tempfile::tempdir().unwrap();
        run(&tasks, &toolchains, dir.path()).unwrap();
    }

    #[test]
    fn small_tasks_are_unsolved() {
        check(None);
    }

    #[test]
    fn rust_tasks_are_unsolved_and_solvable() {
        check(Some(Language::Rust));
    }

    #[test]
    fn python_tasks_are_unsolved_and_solvable() {
        check(Some(Language::Python));
    }

    #[test]
    fn javascript_tasks_are_unsolved_and_solvable() {
        check(Some(Language::JavaScript));
    }

    #[test]
    fn go_tasks_are_unsolved_and_solvable() {
        check(Some(Language::Go));
    }
}
