//! The settings of git as text.

use std::fmt::Write as _;

use super::record::{Record, Remote, local_path};

/// A file of settings under construction.
#[derive(Default)]
pub struct Settings(String);

impl Settings {
    /// Adds a setting; `key` is `section.name` or `section.subsection.name`, as git prints it.
    pub fn add(&mut self, key: &str, value: &str) {
        let Some((section, remaining)) = key.split_once('.') else {
            return;
        };
        let (subsection, name) = match remaining.rsplit_once('.') {
            Some((subsection, name)) => (Some(subsection), name),
            None => (None, remaining),
        };
        let _ = match subsection {
            Some(subsection) => writeln!(self.0, "[{section} {}]", quoted(subsection)),
            None => writeln!(self.0, "[{section}]"),
        };
        let _ = writeln!(self.0, "\t{name} = {}", quoted(value));
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Returns the settings of a repository from its record, without the current settings of the
/// workspace.
pub(super) fn of_record(record: &Record) -> Settings {
    let mut settings = Settings::default();
    let partial = record.remotes.iter().find(|(_, remote)| remote.promisor);
    let has_extension = partial.is_some() || record.object_format != "sha1";
    settings.add(
        "core.repositoryformatversion",
        if has_extension { "1" } else { "0" },
    );
    if record.object_format != "sha1" {
        settings.add("extensions.objectformat", &record.object_format);
    }
    if let Some((name, _)) = partial {
        settings.add("extensions.partialclone", name);
    }
    for (key, value) in &record.settings {
        settings.add(key, value);
    }
    for (name, remote) in &record.remotes {
        add_remote(&mut settings, name, remote);
    }
    // Without this setting, Git LFS would read `.lfsconfig` of the work tree, which the agent
    // controls.
    let url = record.default_remote().and_then(|name| record.remotes.get(name));
    if let Some(url) = record.lfs_url.clone().or(url.map(|remote| lfs_url(&remote.url))) {
        settings.add("lfs.url", &url);
        let push_url = url_of_push(record).map_or(url, |url| lfs_url(&url));
        settings.add("lfs.pushurl", &push_url);
    }
    settings
}

fn add_remote(settings: &mut Settings, name: &str, remote: &Remote) {
    let key = |key: &str| format!("remote.{name}.{key}");
    settings.add(&key("url"), &remote.url);
    if let Some(url) = &remote.push_url {
        settings.add(&key("pushurl"), url);
    }
    for fetch in &remote.fetch {
        settings.add(&key("fetch"), fetch);
    }
    let all = format!("+refs/heads/*:refs/remotes/{name}/*");
    if remote.fetch.is_empty() {
        settings.add(&key("fetch"), &all);
    }
    if remote.promisor {
        settings.add(&key("promisor"), "true");
    }
    if let Some(filter) = &remote.filter {
        settings.add(&key("partialclonefilter"), filter);
    }
}

fn url_of_push(record: &Record) -> Option<String> {
    let remote = record.remotes.get(record.default_remote()?)?;
    remote.push_url.clone()
}

/// Returns the URL of the Git LFS server for a remote, derived in the same way as Git LFS does.
fn lfs_url(url: &str) -> String {
    if url.starts_with("https://") || url.starts_with("http://") {
        let url = url.trim_end_matches('/');
        let end = if url.ends_with(".git") {
            "/info/lfs"
        } else {
            ".git/info/lfs"
        };
        return format!("{url}{end}");
    }
    match local_path(url) {
        Some(path) => format!("file://{}", path.display()),
        None => url.to_owned(),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars().filter(|letter| *letter != '\0') {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Parses the output of `git config --list -z`.
pub fn parse(list: &[u8]) -> Vec<(String, String)> {
    let entries = list.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let pair = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        match text.split_once('\n') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            // A key without a value means `true`.
            None => (text.into_owned(), "true".to_owned()),
        }
    };
    entries.map(pair).collect()
}
