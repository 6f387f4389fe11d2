//! The login of an agent profile with `home: private`: all issues share one login, though each
//! issue has its own home.
//!
//! An agent refreshes its tokens in its own home. They are copied to the profile's login, and from
//! there to the homes of the other issues, while agents run, because a refresh token can be used
//! only once. Nothing else of a home is copied.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::task::{AbortHandle, spawn_blocking};
use vik_core::workflow::Home;
use vik_store::AttemptFailure;
use vik_workspace::changes::small_file;
use vik_workspace::fs::{create_private_dir_all, write_atomic};

use super::opened::{AttemptContext, broken};

/// How often a running agent's login is compared with the profile's.
const INTERVAL: Duration = Duration::from_secs(1);

/// The maximum size of a login file.
const MAX_BYTES: usize = 64 * 1024;

/// The fields that name the account: a refreshed login has the same ones.
const IDENTITY: [&str; 4] = ["OPENAI_API_KEY", "account_id", "auth_mode", "organizationUuid"];

/// How long before its expiry an access token may be replaced. Claude Code refreshes five minutes
/// before.
const REFRESH_WINDOW: Duration = Duration::from_mins(10);

/// Held by the only writer.
static EXCHANGE: Mutex<()> = Mutex::new(());

/// The login files of a profile and of one issue's home.
#[derive(Clone, Debug)]
pub(super) struct LoginSync {
    /// The folder with the profile's login.
    profile: PathBuf,
    /// The home of the issue's agent.
    issue: PathBuf,
    files: &'static [&'static str],
}

/// A task that synchronises logins until it is dropped.
#[derive(Debug)]
pub(super) struct LoginSyncTask(AbortHandle);

impl Drop for LoginSyncTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LoginSync {
    /// Copies the newer login over the older one. An issue's login that is not a refreshed one of
    /// the profile is replaced before an agent starts; while the agent runs the file may be
    /// incomplete and is kept. Returns the names of the files that differ. Blocks.
    fn exchange(&self, is_running: bool) -> Vec<&'static str> {
        let _one = EXCHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.issue.is_dir() {
            return Vec::new();
        }
        let mut differ = Vec::new();
        for name in self.files {
            match exchange(&self.profile.join(name), &self.issue.join(name), is_running) {
                Ok(true) => {}
                Ok(false) => differ.push(*name),
                Err(error) => tracing::warn!(file = name, %error, "cannot copy a login"),
            }
        }
        differ
    }

    /// Synchronises the logins every [`INTERVAL`].
    pub(super) fn spawn_sync(self) -> LoginSyncTask {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                let sync = self.clone();
                let _ = spawn_blocking(move || sync.exchange(true)).await;
            }
        });
        LoginSyncTask(task.abort_handle())
    }
}

impl AttemptContext<'_> {
    /// Creates the private home of the agent and its login, if the profile uses one.
    pub(super) async fn private_home(&self) -> Result<Option<PathBuf>, AttemptFailure> {
        if self.spec.profile.home == Home::User {
            return Ok(None);
        }
        let logins = self.logins();
        let made = spawn_blocking(move || {
            create_private_dir_all(&logins.profile)?;
            create_private_dir_all(&logins.issue)?;
            logins.exchange(false);
            Ok(Some(logins.issue))
        });
        made.await
            .map_err(io::Error::other)
            .flatten()
            .map_err(|error| broken("cannot create the agent's home", &error))
    }

    /// Copies the login that the agent refreshed, whatever its outcome.
    pub(super) async fn exchange_login(&self) {
        if self.spec.profile.home == Home::User {
            return;
        }
        let logins = self.logins();
        let differ = spawn_blocking(move || logins.exchange(true)).await;
        for file in differ.unwrap_or_default() {
            tracing::warn!(
                file,
                agent = self.start().stage.agent.as_str(),
                "the agent left a login that is not a refresh of its profile's login: the profile keeps its own; log in again if the provider refuses it"
            );
        }
    }

    /// Returns the logins of the profile and of this issue's agent.
    pub(super) fn logins(&self) -> LoginSync {
        let (start, layout) = (self.start(), &self.host().layout);
        LoginSync {
            profile: layout.agent_home(&start.stage.agent),
            issue: layout.issue_agent_home(&start.issue.id, &start.stage.agent),
            files: vik_agents::driver(self.spec.profile.runtime).login_files(),
        }
    }
}

/// Copies the newer of two files over the older one. Returns whether both contain the same login
/// afterwards.
fn exchange(profile: &Path, issue: &Path, is_running: bool) -> io::Result<bool> {
    let Some(ours) = read_login(profile) else {
        return Ok(true);
    };
    let theirs = read_login(issue).and_then(|theirs| refreshed(&ours, &theirs));
    let is_newer = changed_at(issue) > changed_at(profile);
    match theirs {
        Some(theirs) if theirs == ours => Ok(true),
        Some(theirs) if is_newer && may_be_refreshed(&ours) => {
            write_atomic(profile, serde_json::to_string_pretty(&theirs)?.as_bytes())?;
            Ok(true)
        }
        // Another account's login, or an incomplete file.
        theirs if is_running && (theirs.is_none() || is_newer) => Ok(false),
        _ => {
            write_atomic(issue, serde_json::to_string_pretty(&ours)?.as_bytes())?;
            Ok(true)
        }
    }
}

/// Returns whether an agent has a reason to refresh this login. The tokens of Claude Code name no
/// account, so those of another account look like refreshed ones; a login that is still valid is
/// replaced by neither.
fn may_be_refreshed(login: &Value) -> bool {
    let ends = login.pointer("/claudeAiOauth/expiresAt").and_then(Value::as_u64);
    ends.is_none_or(|ends| {
        let ends = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ends));
        ends.is_some_and(|ends| ends <= SystemTime::now() + REFRESH_WINDOW)
    })
}

/// Returns the login in a file, if it contains one.
pub fn read_login(path: &Path) -> Option<Value> {
    let text = small_file(path).ok().filter(|text| text.len() <= MAX_BYTES)?;
    serde_json::from_str(&text).ok().filter(Value::is_object)
}

/// Returns when a file was changed; a time in the future counts as the oldest, so that it does not
/// win for ever.
fn changed_at(path: &Path) -> SystemTime {
    let changed = path.symlink_metadata().and_then(|facts| facts.modified());
    let known = changed.ok().filter(|changed| *changed <= SystemTime::now());
    known.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the profile's login with the values of the issue's login, and no other field. `None` if
/// the login is of another account or has another form.
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

        /// Writes a login with a modification time `age` seconds ago.
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

        fn exchange(&self, issue: &str, is_running: bool) -> Vec<&'static str> {
            let sync = LoginSync {
                profile: self.folder.path().join("profile"),
                issue: self.folder.path().join(issue),
                files: &["auth.json"],
            };
            sync.exchange(is_running)
        }

        fn value(&self, home: &str) -> Value {
            serde_json::from_str(&std::fs::read_to_string(self.file(home)).unwrap_or_default())
                .unwrap_or_default()
        }
    }

    #[test]
    fn refreshed_token_reaches_the_profile_and_other_issues() {
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
        // The user logs in again.
        homes.write("profile", &login("by hand").to_string(), 0);
        homes.write("1", &login("stale").to_string(), 40);
        homes.exchange("1", true);
        assert_eq!(homes.value("1"), login("by hand"));
    }

    #[test]
    fn profile_accepts_only_a_refreshed_login_from_an_issue() {
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
            // The file may be incomplete while the agent runs; the next agent starts with a
            // complete one.
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

    /// Tokens of Claude Code name no account.
    #[test]
    fn login_without_an_account_is_replaced_only_when_due() {
        let in_hours = |hours: u64| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            u64::try_from(now.as_millis()).unwrap() + hours * 3_600_000
        };
        let login = |token: &str, hours| json!({"claudeAiOauth": {"accessToken": token, "expiresAt": in_hours(hours)}, "organizationUuid": "o"});
        let homes = Homes::new();
        homes.write("profile", &login("mine", 2).to_string(), 100);
        let planted = login("planted", 20).to_string();
        homes.write("1", &planted, 50);
        assert_eq!(homes.exchange("1", true), ["auth.json"]);
        assert_eq!(homes.value("profile")["claudeAiOauth"]["accessToken"], "mine");
        assert_eq!(
            homes.value("1")["claudeAiOauth"]["accessToken"],
            "planted",
            "it runs"
        );
        homes.exchange("1", false);
        assert_eq!(homes.value("1"), homes.value("profile"));
        homes.write("profile", &login("mine", 0).to_string(), 100);
        let mut other = login("other", 20);
        other["organizationUuid"] = json!("another");
        homes.write("1", &other.to_string(), 50);
        assert_eq!(homes.exchange("1", true), ["auth.json"]);
        homes.write("1", &login("refreshed", 8).to_string(), 50);
        assert!(homes.exchange("1", true).is_empty());
        assert_eq!(
            homes.value("profile")["claudeAiOauth"]["accessToken"],
            "refreshed"
        );
        // A login whose expiry is unknown stays valid.
        homes.write("profile", &login("mine", u64::MAX / 4_000_000).to_string(), 100);
        homes.write("1", &planted, 50);
        assert_eq!(homes.exchange("1", true), ["auth.json"]);
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
