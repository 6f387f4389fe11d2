//! `vik trace blame`

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use vik_api::{Author, BlameView, BlamedLines, SCHEMA};
use vik_core::file_change::RelPath;
use vik_core::ids::IssueId;
use vik_proc::untrusted;

use super::{text, unreadable, view};
use crate::cli::{CliResult, print, print_json};
use crate::provenance::blame::{self, Blamed};
use crate::provenance::record::masked;
use crate::provenance::{Record, Trace};
use crate::report::{Exit, Failure};
use crate::workspace::changes::{Store, read_file};
use crate::workspace::folder_name;
use crate::workspace::fs as private;

/// A file that is asked about.
struct Asked {
    /// The folder of an issue's workspace, where it is in one.
    folder: Option<String>,
    path: RelPath,
    content: Vec<u8>,
}

/// Says who wrote each line of a file.
pub fn run(root: &Path, trace: &Trace, file: &Path, issue: Option<&str>, json: bool) -> CliResult {
    let asked = asked(root, file, issue)?;
    let lines = trace.read().map_err(|error| unreadable(&error))?;
    let records: Vec<Record> = lines
        .into_iter()
        .map(|line| line.record)
        .filter(|record| {
            let folder = asked.folder.as_ref();
            folder.is_none_or(|folder| folder_name(&record.vik().issue) == *folder)
        })
        .collect();
    let store = Store::new(&root.join("trace").join("contents"));
    let blamed = blame::blame(&records, &masked(&asked.path), &asked.content, &store);
    let issue_id = issue.map(IssueId::from).or_else(|| {
        let record = records.first().filter(|_| asked.folder.is_some())?;
        Some(record.vik().issue.clone())
    });
    let view = blame_view(&records, &asked.path, issue_id, &blamed);
    if json {
        print_json(&view);
    } else {
        print(&text::blame(&view, &asked.content));
    }
    Ok(Exit::Done)
}

fn blame_view(records: &[Record], path: &RelPath, issue_id: Option<IssueId>, blamed: &Blamed) -> BlameView {
    let author = |author: blame::Author| match author {
        blame::Author::Attempt(at) => records.get(at).map_or(Author::Unknown, |record| {
            Author::Attempt(Box::new(view::attempt(record)))
        }),
        blame::Author::Outside => Author::Outside,
        blame::Author::Unknown => Author::Unknown,
    };
    let (mut lines, mut whole): (Vec<BlamedLines>, _) = (Vec::new(), None);
    match blamed {
        Blamed::Whole(of) => whole = Some(author(*of)),
        Blamed::Lines(authors) => {
            let mut number = 0;
            for same in authors.chunk_by(|a, b| a == b) {
                let start = number + 1;
                number += same.len() as u64;
                lines.push(BlamedLines {
                    start,
                    end: number,
                    author: author(same[0]),
                });
            }
        }
    }
    BlameView {
        schema: SCHEMA,
        path: path.text().into_owned(),
        issue_id,
        lines,
        whole,
    }
}

/// A larger file is not shown.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Finds the file, and what records call it.
fn asked(root: &Path, file: &Path, issue: Option<&str>) -> Result<Asked, Failure> {
    let issues = root.join("issues");
    let shown = file.display();
    let missing = || {
        Failure::new(Exit::NotFound, "not_found", format!("there is no file {shown}"))
            .hint("say --issue ID for a file in the workspace of an issue")
    };
    let fail = |error: &std::io::Error| Failure::failed("trace", format!("cannot read {shown}"), error);
    let (folder, below) = match issue {
        Some(issue) => (folder_name(&IssueId::from(issue)), file.to_owned()),
        None => {
            let absolute = std::path::absolute(file).map_err(|error| fail(&error))?;
            let parts = || absolute.strip_prefix(&issues).ok().map(Path::components);
            match parts().and_then(|mut parts| Some((parts.next()?, parts.as_path().to_owned()))) {
                Some((folder, below)) => (folder.as_os_str().to_string_lossy().into_owned(), below),
                None => {
                    let content = match untrusted::read(&absolute, MAX_FILE_BYTES) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
                        content => content.map_err(|error| fail(&error))?,
                    };
                    let below = below_checkout(&absolute);
                    return Ok(Asked {
                        folder: None,
                        path: RelPath::new(below.as_os_str().as_bytes()),
                        content,
                    });
                }
            }
        }
    };
    let path = RelPath::new(below.as_os_str().as_bytes());
    let workspace = match private::open_folder(&issues.join(&folder)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
        workspace => workspace.map_err(|error| fail(&error))?,
    };
    let content = read_file(&workspace, &path).map_err(|error| fail(&error))?;
    Ok(Asked {
        folder: Some(folder),
        content: content.ok_or_else(missing)?,
        path,
    })
}

/// A path from the top of its checkout, else from the folder it is in.
fn below_checkout(file: &Path) -> PathBuf {
    let top = file
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(".git").exists());
    let here = std::env::current_dir().ok();
    let top = top
        .or(here.as_deref().filter(|here| file.starts_with(here)))
        .or(file.parent());
    let below = top.and_then(|top| file.strip_prefix(top).ok());
    below.unwrap_or(file).to_owned()
}
