//! Reading, writing and editing files.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::Deserialize;
use serde_json::{Value, json};

use super::root::{Place, Root, RootError};
use super::tool::{Look, Write as Writes};
use super::{Change, MAX_OUTPUT_BYTES, Tool, ToolContext, ToolError, Wrote};

/// Names of `path` that models use.
const PATH_NAMES: [(&str, &str); 3] = [("file_path", "path"), ("file", "path"), ("filename", "path")];

fn path_schema() -> Value {
    json!({"type": "string", "description": "relative to the working directory"})
}

/// Lines of one page, where the model does not say.
const PAGE_LINES: usize = 1000;
/// The largest file that is read or edited, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Entries of a listing.
const MAX_ENTRIES: usize = 500;

#[derive(Deserialize)]
pub(crate) struct ReadFile {
    path: PathBuf,
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize)]
pub(crate) struct WriteFile {
    path: PathBuf,
    content: String,
}

#[derive(Deserialize)]
pub(crate) struct EditFile {
    path: PathBuf,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Deserialize)]
pub(crate) struct ListDir {
    #[serde(default = "here")]
    path: PathBuf,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const ALIASES: &'static [&'static str] = &["read", "view", "view_file", "open_file", "cat"];
    const DESCRIPTION: &'static str = "Read a text file, by pages of lines.";
    type Kind = Look;
    const REQUIRED: &'static [&'static str] = &["path"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &PATH_NAMES;
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema(),
               "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
               "limit": {"type": "integer", "minimum": 1, "description": "number of lines"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        read(context.root, &self)
    }
}

impl Tool for ListDir {
    const NAME: &'static str = "list_dir";
    const ALIASES: &'static [&'static str] = &["ls", "list", "list_directory", "list_files"];
    const DESCRIPTION: &'static str = "List a directory; directories end with a slash.";
    type Kind = Look;
    const REQUIRED: &'static [&'static str] = &[];
    const ARGUMENTS: &'static [(&'static str, &'static str)] =
        &[("dir", "path"), ("directory", "path"), ("dir_path", "path")];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema()})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        list(context.root, &self)
    }
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const ALIASES: &'static [&'static str] =
        &["write", "create_file", "create", "write_to_file", "save_file"];
    const DESCRIPTION: &'static str = "Write a whole file; missing directories are made.";
    type Kind = Writes;
    const REQUIRED: &'static [&'static str] = &["path", "content"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("file_path", "path"),
        ("file", "path"),
        ("filename", "path"),
        ("contents", "content"),
        ("text", "content"),
        ("file_text", "content"),
    ];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema(), "content": {"type": "string"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<Wrote, ToolError> {
        write(context.root, &self)
    }
}

impl Tool for EditFile {
    const NAME: &'static str = "edit_file";
    const ALIASES: &'static [&'static str] = &["edit", "str_replace", "replace", "replace_in_file"];
    const DESCRIPTION: &'static str =
        "Replace an exact text, which must stand in the file exactly once (or set replace_all).";
    type Kind = Writes;
    const REQUIRED: &'static [&'static str] = &["path", "old", "new"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("file_path", "path"),
        ("file", "path"),
        ("filename", "path"),
        ("old_string", "old"),
        ("old_str", "old"),
        ("old_text", "old"),
        ("new_string", "new"),
        ("new_str", "new"),
        ("new_text", "new"),
    ];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema(), "old": {"type": "string"}, "new": {"type": "string"},
               "replace_all": {"type": "boolean"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<Wrote, ToolError> {
        edit(context.root, &self)
    }
}

fn read(root: &Root, input: &ReadFile) -> Result<String, ToolError> {
    let (bytes, _) = load(root, &input.path)?;
    let text = String::from_utf8_lossy(&bytes);
    let first = input.offset.unwrap_or(1).max(1);
    let limit = input.limit.unwrap_or(PAGE_LINES).clamp(1, PAGE_LINES);
    let total = text.lines().count();
    if first > total && total > 0 {
        return Err(ToolError::Failed(format!(
            "{} has only {total} lines",
            input.path.display()
        )));
    }
    let mut page = String::new();
    let mut taken = 0;
    for line in text.split_inclusive('\n').skip(first - 1).take(limit) {
        // At least one line, so that the next page is another one; an endless line is cut by the bound of all tools.
        if taken > 0 && page.len() + line.len() > MAX_OUTPUT_BYTES - 200 {
            break;
        }
        page.push_str(line);
        taken += 1;
    }
    let next = first + taken;
    if next <= total {
        if !page.ends_with('\n') {
            page.push('\n');
        }
        page.push_str(&format!(
            "[lines {first} to {} of {total}; next: read_file with offset {next}]\n",
            next - 1
        ));
    }
    Ok(page)
}

fn list(root: &Root, input: &ListDir) -> Result<String, ToolError> {
    let io =
        |source: std::io::Error| ToolError::Failed(format!("cannot list {}: {source}", input.path.display()));
    let handle = root.place(&input.path, false)?.directory(&input.path)?;
    let mut entries = Vec::new();
    let mut more = false;
    for entry in nix::dir::Dir::from_fd(handle)
        .map_err(|errno| io(errno.into()))?
        .into_iter()
    {
        let entry = entry.map_err(|errno| io(errno.into()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        if entries.len() == MAX_ENTRIES {
            more = true;
            break;
        }
        let mark = match entry.file_type() {
            Some(nix::dir::Type::Directory) => "/",
            Some(nix::dir::Type::Symlink) => "@",
            _ => "",
        };
        entries.push(format!("{name}{mark}"));
    }
    entries.sort_unstable();
    if more {
        entries.push(format!("[more than {MAX_ENTRIES} entries]"));
    }
    if entries.is_empty() {
        entries.push("[empty]".to_owned());
    }
    Ok(entries.join("\n") + "\n")
}

fn write(root: &Root, input: &WriteFile) -> Result<Wrote, ToolError> {
    let place = root.place(&input.path, true)?;
    let mode = match place.read(&input.path) {
        Ok(file) => file.metadata().ok().map(|meta| meta.permissions().mode()),
        Err(RootError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let change = save(root, &place, &input.path, input.content.as_bytes(), mode)?;
    let done = if mode.is_some() { "replaced" } else { "created" };
    let lines = input.content.lines().count();
    Ok(Wrote::one(
        format!("{done} {} ({lines} lines)", input.path.display()),
        change,
    ))
}

fn edit(root: &Root, input: &EditFile) -> Result<Wrote, ToolError> {
    let fail = |reason: String| Err(ToolError::Failed(format!("{}: {reason}", input.path.display())));
    if input.old.is_empty() {
        return fail("`old` is empty; use write_file for a new file".to_owned());
    }
    if input.old == input.new {
        return fail("`old` and `new` are the same".to_owned());
    }
    let place = root.place(&input.path, true)?;
    let (bytes, mode) = load_place(&place, &input.path)?;
    let Ok(text) = String::from_utf8(bytes) else {
        return fail("it is not UTF-8 text".to_owned());
    };
    let found = text.matches(input.old.as_str()).count();
    match found {
        0 => return fail("`old` does not stand in the file; read it again".to_owned()),
        1 => {}
        _ if input.replace_all => {}
        _ => {
            return fail(format!(
                "`old` stands there {found} times; give more of the lines around it"
            ));
        }
    }
    let edited = text.replace(&input.old, &input.new);
    let change = save(root, &place, &input.path, edited.as_bytes(), Some(mode))?;
    let times = if found == 1 {
        "once".to_owned()
    } else {
        format!("{found} times")
    };
    Ok(Wrote::one(
        format!("edited {}: replaced {times}", input.path.display()),
        change,
    ))
}

fn load(root: &Root, path: &Path) -> Result<(Vec<u8>, u32), ToolError> {
    load_place(&root.place(path, false)?, path)
}

fn load_place(place: &Place, path: &Path) -> Result<(Vec<u8>, u32), ToolError> {
    let file = place.read(path)?;
    let io = |source| {
        ToolError::from(RootError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        })
    };
    let meta = file.metadata().map_err(io)?;
    if meta.len() > MAX_FILE_BYTES {
        return Err(ToolError::Failed(format!(
            "{} is too large: {} bytes",
            path.display(),
            meta.len()
        )));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(io)?;
    Ok((bytes, meta.permissions().mode()))
}

/// Writes beside the file, then takes its place: a reader sees the old or the new one, never a part.
fn save(
    root: &Root,
    place: &Place,
    path: &Path,
    content: &[u8],
    mode: Option<u32>,
) -> Result<Change, ToolError> {
    let io = |source| {
        ToolError::from(RootError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })
    };
    let parent = place.parent.as_fd();
    let name = format!(".vex-{}.tmp", uuid::Uuid::now_v7().simple());
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let handle = openat(parent, name.as_str(), flags, Mode::from_bits_truncate(0o666))
        .map_err(|errno| io(errno.into()))?;
    let mut file = std::fs::File::from(handle);
    let result = file
        .write_all(content)
        .and_then(|()| match mode {
            Some(mode) => file.set_permissions(std::fs::Permissions::from_mode(mode & 0o7777)),
            None => Ok(()),
        })
        .and_then(|()| {
            renameat(parent, name.as_str(), parent, place.name.as_os_str()).map_err(std::io::Error::from)
        });
    match result {
        Ok(()) => Ok(Change::file(root.shown(path))),
        Err(error) => {
            let _ = unlinkat(parent, name.as_str(), UnlinkatFlags::NoRemoveDir);
            Err(io(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), false).unwrap();
        (dir, root)
    }

    fn write_to(root: &Root, path: &str, content: &str) -> Result<Wrote, ToolError> {
        write(
            root,
            &WriteFile {
                path: path.into(),
                content: content.into(),
            },
        )
    }

    fn edit_in(root: &Root, path: &str, old: &str, new: &str) -> Result<Wrote, ToolError> {
        edit(
            root,
            &EditFile {
                path: path.into(),
                old: old.into(),
                new: new.into(),
                replace_all: false,
            },
        )
    }

    #[test]
    fn writes_and_edits_really_happen_and_keep_the_mode() {
        let (dir, root) = root();
        write_to(&root, "a/b.sh", "one\ntwo\n").unwrap();
        let file = dir.path().join("a/b.sh");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            super::super::output::Output::from(edit_in(&root, "a/b.sh", "two", "three").unwrap()).text,
            "edited a/b.sh: replaced once"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\nthree\n");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(
            std::fs::read_dir(dir.path().join("a")).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn an_edit_that_does_not_fit_changes_nothing() {
        let (dir, root) = root();
        write_to(&root, "f", "x\nx\n").unwrap();
        let told: Vec<_> = [("y", "z"), ("x", "z"), ("", "z"), ("x", "x")]
            .iter()
            .map(|(old, new)| edit_in(&root, "f", old, new).unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        f: `old` does not stand in the file; read it again
        f: `old` stands there 2 times; give more of the lines around it
        f: `old` is empty; use write_file for a new file
        f: `old` and `new` are the same
        ");
        assert_eq!(std::fs::read_to_string(dir.path().join("f")).unwrap(), "x\nx\n");
    }

    #[test]
    fn pages_name_the_next_call() {
        let (_dir, root) = root();
        write_to(&root, "f", "1\n2\n3\n4\n").unwrap();
        let page = |offset, limit| {
            read(
                &root,
                &ReadFile {
                    path: "f".into(),
                    offset: Some(offset),
                    limit: Some(limit),
                },
            )
            .unwrap()
        };
        assert_eq!(
            page(1, 2),
            "1\n2\n[lines 1 to 2 of 4; next: read_file with offset 3]\n"
        );
        assert_eq!(page(3, 2), "3\n4\n");
    }

    #[test]
    fn a_listing_is_sorted_and_marked() {
        let (dir, root) = root();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("l")).unwrap();
        assert_eq!(list(&root, &ListDir { path: ".".into() }).unwrap(), "a\nd/\nl@\n");
        assert_eq!(list(&root, &ListDir { path: "d".into() }).unwrap(), "[empty]\n");
    }
}
