//! The login of an agent profile with `home: private`: one for all issues, though each issue has a home of its own.
//!
//! An agent refreshes its tokens in its own home. They are taken over into the profile's login, and from there into the homes
//! of the other issues, while agents run: a token that was refreshed once cannot be used again. Nothing else of a home comes
//! out of it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::task::{AbortHandle, spawn_blocking};

use super::attempt::Work;
use crate::workspace::changes::small_file;
use crate::workspace::fs::write_atomic;

/// How often a running agent's login is compared with the profile's.
const EVERY: Duration = Duration::from_secs(1);

/// A longer file is no login.
const MAX_BYTES: usize = 64 * 1024;

/// What says whose login it is: an agent may refresh a login, and not replace it.
const IDENTITY: [&str; 3] = ["OPENAI_API_KEY", "account_id", "auth_mode"];

/// One writer at a time.
static EXCHANGE: Mutex<()> = Mutex::new(());

/// The login files of a profile and of one issue's home.
#[derive(Clone, Debug)]
pub(super) struct LoginSync {
    /// The folder with the profile's login.
    pub(super) profile: PathBuf,
    /// The home of the issue's agent.
    pub(super) issue: PathBuf,
    /// The names of the files.
    pub(super) files: &'static [&'static str],
}

/// Compares logins until it is dropped.
#[derive(Debug)]
pub(super) struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LoginSync {
    /// Copies the newer login over the older one. Before an agent starts, a login of the issue that is damaged is replaced; while
    /// it runs it may be half written, and stays. Blocks.
    pub(super) fn exchange(&self, is_running: bool) {
        let _one = EXCHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.issue.is_dir() {
            return;
        }
        for name in self.files {
            if let Err(error) = exchange(&self.profile.join(name), &self.issue.join(name), is_running) {
                tracing::warn!(file = name, %error, "a login cannot be copied");
            }
        }
    }

    /// Copies it again and again.
    pub(super) fn keep_up(self) -> Running {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let sync = self.clone();
                let _ = spawn_blocking(move || sync.exchange(true)).await;
            }
        });
        Running(task.abort_handle())
    }
}

impl Work<'_> {
    /// The logins of the profile and of this issue's agent.
    pub(super) fn logins(&self) -> LoginSync {
        let (start, layout) = (self.start(), &self.host().layout);
        LoginSync {
            profile: layout.agent_home(&start.stage.agent),
            issue: layout.issue_agent_home(&start.issue.id, &start.stage.agent),
            files: vik_agents::login_files(self.kept.profile.runtime),
        }
    }
}

fn exchange(profile: &Path, issue: &Path, is_running: bool) -> std::io::Result<()> {
    let Some(ours) = read_login(profile) else {
        return Ok(());
    };
    let theirs = read_login(issue);
    match theirs.and_then(|theirs| refreshed(&ours, &theirs)) {
        Some(refreshed) if refreshed == ours => Ok(()),
        Some(refreshed) if changed_at(issue) > changed_at(profile) => {
            write_atomic(profile, serde_json::to_string_pretty(&refreshed)?.as_bytes())
        }
        None if is_running => Ok(()),
        _ => write_atomic(issue, serde_json::to_string_pretty(&ours)?.as_bytes()),
    }
}

/// A login, where the file holds one.
pub(crate) fn read_login(path: &Path) -> Option<Value> {
    let text = small_file(path).ok().filter(|text| text.len() <= MAX_BYTES)?;
    serde_json::from_str(&text).ok().filter(Value::is_object)
}

/// When a file was changed; one from the future counts as the oldest, so that it does not win for ever.
fn changed_at(path: &Path) -> SystemTime {
    let changed = path.symlink_metadata().and_then(|facts| facts.modified());
    let known = changed.ok().filter(|changed| *changed <= SystemTime::now());
    known.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The profile's login with the values of the issue's: no field comes in that was not there. `None` where it is another
/// account's, or has another form.
fn refreshed(profile: &Value, issue: &Value) -> Option<Value> {
    match (profile, issue) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let fields = ours.iter().map(|(name, ours)| {
                let theirs = theirs.get(name).unwrap_or(ours);
                let is_other = IDENTITY.contains(&name.as_str()) && ours != theirs;
                let value = if is_other { None } else { refreshed(ours, theirs) };
                Some((name.clone(), value?))
            });
            fields.collect::<Option<_>>().map(Value::Object)
        }
        (Value::Null, Value::String(_)) | (Value::String(_), Value::Null) => Some(issue.clone()),
        (Value::Array(_), _) | (_, Value::Array(_)) => (profile == issue).then(|| issue.clone()),
        _ => (std::mem::discriminant(profile) == std::mem::discriminant(issue)).then(|| issue.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn login(access: &str) -> Value {
        json!({"OPENAI_API_KEY": null, "last_refresh": null, "tokens": {"access_token": access, "account_id": "me"}})
    }

    struct Homes {
        folder: tempfile::TempDir,
    }

    impl Homes {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["profile", "1", "2"] {
                std::fs::create_dir(folder.path().join(name)).unwrap();
            }
            Self { folder }
        }

        fn file(&self, home: &str) -> PathBuf {
            self.folder.path().join(home).join("auth.json")
        }

        /// Writes a login as if so many seconds ago.
        fn write(&self, home: &str, text: &str, age: u64) {
            let file = self.file(home);
            std::fs::write(&file, text).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            std::fs::File::options()
                .write(true)
                .open(&file)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }

        fn exchange(&self, issue: &str, is_running: bool) {
            let sync = LoginSync {
                profile: self.folder.path().join("profile"),
                issue: self.folder.path().join(issue),
                files: &["auth.json"],
            };
            sync.exchange(is_running);
        }

        fn value(&self, home: &str) -> Value {
            serde_json::from_str(&std::fs::read_to_string(self.file(home)).unwrap_or_default())
                .unwrap_or_default()
        }
    }

    #[test]
    fn a_refreshed_token_reaches_the_profile_and_the_other_issues() {
        let homes = Homes::new();
        homes.write("profile", &login("old").to_string(), 100);
        for issue in ["1", "2"] {
            homes.exchange(issue, false);
            assert_eq!(homes.value(issue), login("old"));
            homes.write(issue, &login("old").to_string(), 90);
        }
        let mut new = login("new");
        new["last_refresh"] = json!("2026-01-01");
        homes.write("1", &new.to_string(), 50);
        for issue in ["1", "2"] {
            homes.exchange(issue, true);
        }
        assert_eq!((homes.value("profile"), homes.value("2")), (new.clone(), new));
        // The user logs in anew.
        homes.write("profile", &login("by hand").to_string(), 0);
        homes.write("1", &login("stale").to_string(), 40);
        homes.exchange("1", true);
        assert_eq!(homes.value("1"), login("by hand"));
    }

    #[test]
    fn nothing_but_a_refreshed_login_comes_out_of_an_issue() {
        let mut other = login("x");
        other["tokens"]["account_id"] = json!("another");
        let mut key = login("x");
        key["OPENAI_API_KEY"] = json!("sk-planted");
        let mut form = login("x");
        form["tokens"] = json!("text");
        for planted in [
            other.to_string(),
            key.to_string(),
            form.to_string(),
            "{".to_owned(),
            "[]".to_owned(),
            "x".repeat(MAX_BYTES + 1),
        ] {
            let homes = Homes::new();
            homes.write("profile", &login("mine").to_string(), 100);
            homes.write("1", &planted, 50);
            homes.exchange("1", true);
            assert_eq!(homes.value("profile"), login("mine"), "{planted}");
            // It may be half written while the agent runs; the next one begins with a whole one.
            assert_eq!(std::fs::read_to_string(homes.file("1")).unwrap(), planted);
            homes.exchange("1", false);
            assert_eq!(homes.value("1"), login("mine"), "{planted}");
        }
        let homes = Homes::new();
        homes.write("profile", &login("mine").to_string(), 100);
        let mut more = login("new");
        more["mcp"] = json!({"command": "evil"});
        homes.write("1", &more.to_string(), 50);
        homes.exchange("1", true);
        assert_eq!(homes.value("profile"), login("new"));
    }

    #[test]
    fn links_and_pipes_in_place_of_a_login_are_not_followed() {
        let homes = Homes::new();
        homes.write("profile", &login("mine").to_string(), 100);
        homes.write("2", &login("of 2").to_string(), 10);
        std::os::unix::fs::symlink(homes.file("2"), homes.file("1")).unwrap();
        homes.exchange("1", true);
        assert_eq!(homes.value("profile"), login("mine"));
        homes.exchange("1", false);
        assert_eq!(
            (homes.value("1"), homes.value("2")),
            (login("mine"), login("of 2"))
        );
        std::fs::remove_file(homes.file("1")).unwrap();
        nix::unistd::mkfifo(&homes.file("1"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        homes.exchange("1", true);
        homes.exchange("1", false);
        assert_eq!(homes.value("1"), login("mine"));
    }
}
