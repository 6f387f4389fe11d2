//! Redmine of Debian's package as a child process, with its own files and database.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rusqlite::{Connection, Row, params};
use serde_json::json;
use vik_testkit::{HttpClient, TestEnv};

use super::record::{Comment, Move};
use crate::interrupt::pause;
use crate::repo::{self, Context as _, TaskResult};

/// The program of Debian's package.
const PROGRAM: &str = "/usr/share/redmine/config/environment.rb";
const SCRIPT: &str = include_str!("redmine.rb");
/// The keys of the REST API. They protect nothing: the database is of this run only.
const PERSON_KEY: &str = "1111111111111111111111111111111111111111";
const VIK_KEY: &str = "2222222222222222222222222222222222222222";
/// The time for Redmine to start, in which it loads all of Rails.
const UP_WITHIN: Duration = Duration::from_secs(90);

pub struct Redmine {
    folder: PathBuf,
    port: u16,
    /// The environment of all its processes.
    environment: Vec<(String, String)>,
    child: Option<Child>,
}

/// Checks that Redmine is installed.
pub fn installed() -> TaskResult {
    let sqlite = Command::new("ruby")
        .args(["-rsqlite3", "-rwebrick", "-e", ""])
        .output();
    if Path::new(PROGRAM).exists() && sqlite.is_ok_and(|done| done.status.success()) {
        return Ok(());
    }
    Err("Redmine with SQLite is not installed\n\
         hint: apt-get install --no-install-recommends redmine redmine-sqlite ruby-webrick"
        .to_owned())
}

impl Redmine {
    /// Creates the files of a Redmine in the environment. The database is a copy of one in the
    /// target folder, which is made first if there is none.
    pub fn create(env: &TestEnv) -> TaskResult<Self> {
        let folder = env.path("redmine");
        let database = folder.join("redmine.sqlite3");
        for name in ["config", "log", "tmp"] {
            std::fs::create_dir_all(folder.join(name)).context("cannot create a folder")?;
        }
        let write = |name: &str, text: &str| repo::write(&folder.join(name), text);
        // While one thread of Ruby waits for SQLite, no other one can end its transaction.
        let connection = json!({"adapter": "sqlite3", "database": &database, "timeout": 250});
        write(
            "config/database.yml",
            &json!({"production": connection}).to_string(),
        )?;
        write(
            "config/configuration.yml",
            "default: {mirror_plugins_assets_on_startup: false}\n",
        )?;
        write("config/secret_key.txt", &"0".repeat(64))?;
        write(
            "Gemfile",
            "eval_gemfile '/usr/share/redmine/Gemfile'\ngem 'webrick'\n",
        )?;
        write("redmine.rb", SCRIPT)?;
        // Debian's Redmine appends the name of the instance to a folder of its own.
        let instance = format!("{}{}", "../".repeat(16), folder.display());
        let mut environment = env.environment();
        let own = [
            ("REDMINE_INSTANCE", instance),
            ("RAILS_ENV", "production".to_owned()),
            ("REDMINE_LANG", "en".to_owned()),
            ("SCHEMA", folder.join("schema.rb").display().to_string()),
            ("BUNDLE_GEMFILE", folder.join("Gemfile").display().to_string()),
            ("PERSON_KEY", PERSON_KEY.to_owned()),
            ("VIK_KEY", VIK_KEY.to_owned()),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let port = repo::free_port()?;
        let redmine = Self {
            folder,
            port,
            environment,
            child: None,
        };
        let cache = cache()?;
        if !cache.exists() {
            eprintln!("creating a database of Redmine in {}", cache.display());
            for step in ["migrate", "fill"] {
                repo::output(&mut redmine.ruby(&[step]))?;
            }
            let text = |error| format!("cannot write {}: {error}", cache.display());
            std::fs::create_dir_all(cache.parent().unwrap_or(&cache)).map_err(text)?;
            let unfinished = cache.with_extension("new");
            std::fs::copy(&database, &unfinished).map_err(text)?;
            std::fs::rename(&unfinished, &cache).map_err(text)?;
        } else {
            std::fs::copy(&cache, &database).context(format!("cannot copy {}", cache.display()))?;
        }
        Ok(redmine)
    }

    fn ruby(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ruby");
        command
            .current_dir("/usr/share/redmine")
            .arg(self.folder.join("redmine.rb"))
            .args(args)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(&mut self) -> TaskResult {
        let log = std::fs::File::create(self.folder.join("log/server.log")).context("cannot write a log")?;
        let again = log.try_clone().map_err(|error| error.to_string())?;
        let mut child = self
            .ruby(&["serve", &self.port.to_string()])
            .process_group(0)
            .stdout(log)
            .stderr(again)
            .spawn()
            .context("cannot start Redmine")?;
        let until = Instant::now() + UP_WITHIN;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let has_exited = child.try_wait().is_ok_and(|status| status.is_some());
            if has_exited || Instant::now() > until {
                let log = repo::read(&self.folder.join("log/server.log")).unwrap_or_default();
                return Err(format!("Redmine did not start:\n{log}"));
            }
            pause(Duration::from_millis(50))?;
        }
        self.child = Some(child);
        Ok(())
    }

    /// Sends a signal to the server; it is waited for after SIGKILL.
    pub fn signal(&mut self, signal: Signal) {
        let Some(child) = &mut self.child else { return };
        let _ = killpg(Pid::from_raw(child.id().cast_signed()), signal);
        if signal == Signal::SIGKILL {
            let _ = child.wait();
            self.child = None;
        }
    }

    /// Returns the variables with which `vik tracker redmine` reaches this server.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("REDMINE_URL", format!("http://127.0.0.1:{}", self.port)),
            ("REDMINE_API_KEY", VIK_KEY.to_owned()),
            ("REDMINE_PROJECT", "chaos".to_owned()),
        ]
    }

    /// Sends a request of the person, who repeats it if the database was locked.
    fn request(&self, method: &str, path: &str, issue: &serde_json::Value) -> TaskResult {
        let client = HttpClient::tcp(&format!("127.0.0.1:{}", self.port))
            .with_header("X-Redmine-API-Key", PERSON_KEY)
            .with_header("Content-Type", "application/json");
        let body = json!({"issue": issue}).to_string();
        let mut reply = client.request(method, path, Some(&body));
        for _ in 0..9 {
            if reply.status < 500 {
                break;
            }
            reply = client.request(method, path, Some(&body));
        }
        if reply.status / 100 == 2 {
            return Ok(());
        }
        Err(format!("{method} {path}: {} {}", reply.status, reply.body))
    }

    /// Creates an issue as the person.
    pub fn create_issue(&self, subject: &str) -> TaskResult {
        self.request(
            "POST",
            "/issues.json",
            &json!({"project_id": "chaos", "subject": subject}),
        )
    }

    /// Moves an issue as the person.
    pub fn move_issue(&self, issue: &str, state: &str) -> TaskResult {
        let ids = self.rows("SELECT id FROM issue_statuses WHERE name = ?1", state, |row| {
            row.get(0)
        })?;
        let id: u32 = *ids.first().ok_or_else(|| format!("no status {state}"))?;
        self.request("PUT", &format!("/issues/{issue}.json"), &json!({"status_id": id}))
    }

    /// Makes the key of Vik invalid, or valid again.
    pub fn set_key_validity(&self, is_valid: bool) -> TaskResult {
        let invalid = VIK_KEY.replace('2', "3");
        let [from, to] = if is_valid {
            [&*invalid, VIK_KEY]
        } else {
            [VIK_KEY, &*invalid]
        };
        let changed = self
            .database()?
            .execute("UPDATE tokens SET value = ?2 WHERE value = ?1", params![from, to]);
        changed.map(|_| ()).context("the database of Redmine")
    }

    /// Returns the state of each issue.
    pub fn states(&self) -> TaskResult<Vec<(String, String)>> {
        self.rows(
            "SELECT CAST(i.id AS TEXT), s.name FROM issues i JOIN issue_statuses s ON s.id = i.status_id \
             WHERE s.name <> ?1",
            "",
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// Returns all changes of states in their order.
    pub fn moves(&self) -> TaskResult<Vec<Move>> {
        self.rows(
            "SELECT CAST(j.journalized_id AS TEXT), u.login, old.name, new.name \
             FROM journal_details d JOIN journals j ON j.id = d.journal_id JOIN users u ON u.id = j.user_id \
             JOIN issue_statuses old ON old.id = d.old_value JOIN issue_statuses new ON new.id = d.value \
             WHERE d.prop_key = ?1 ORDER BY d.id",
            "status_id",
            |row| {
                Ok(Move {
                    issue: row.get(0)?,
                    by: row.get(1)?,
                    from: row.get(2)?,
                    to: row.get(3)?,
                })
            },
        )
    }

    /// Returns all comments that have a key.
    pub fn comments(&self) -> TaskResult<Vec<Comment>> {
        let comments = self.rows(
            "SELECT CAST(journalized_id AS TEXT), notes FROM journals WHERE notes LIKE ?1 ORDER BY id",
            "%<!-- vik:%",
            |row| Ok((row.get(0)?, row.get::<_, String>(1)?)),
        )?;
        let key = |notes: &str| {
            notes
                .split_once("<!-- vik:")?
                .1
                .split_once(" -->")
                .map(|(key, _)| key.to_owned())
        };
        let comments = comments.into_iter();
        Ok(comments
            .filter_map(|(issue, notes)| {
                Some(Comment {
                    issue,
                    key: key(&notes)?,
                })
            })
            .collect())
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> usize {
        let log = std::fs::read(self.folder.join("log/production.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).matches("] Started ").count()
    }

    fn database(&self) -> TaskResult<Connection> {
        let text = |error| format!("the database of Redmine: {error}");
        let database = Connection::open(self.folder.join("redmine.sqlite3")).map_err(text)?;
        database.busy_timeout(Duration::from_secs(10)).map_err(text)?;
        Ok(database)
    }

    fn rows<T>(
        &self,
        query: &str,
        value: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> TaskResult<Vec<T>> {
        let text = |error| format!("the database of Redmine: {error}");
        let database = self.database()?;
        let mut query = database.prepare(query).map_err(text)?;
        let rows = query.query_map([value], |row| read(row)).map_err(text)?;
        rows.collect::<Result<_, _>>().map_err(text)
    }
}

/// Returns the path of the prepared database, which depends on the package and on the script.
fn cache() -> TaskResult<PathBuf> {
    let version = repo::output(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "redmine"]))?;
    let mut hasher = DefaultHasher::new();
    (version, SCRIPT, VIK_KEY, PERSON_KEY).hash(&mut hasher);
    let name = format!("redmine-{:016x}.sqlite3", hasher.finish());
    Ok(repo::target().join("tracker-chaos").join(name))
}
