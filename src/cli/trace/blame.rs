//! `vik trace blame`

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use vik_api::{Author, BlameView, BlamedLines, SCHEMA};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::file_change::RelPath;
use vik_core::ids::IssueId;
use vik_proc::untrusted;
use vik_session::provenance::blame::{self, Blame};
use vik_session::provenance::record::masked;
use vik_session::provenance::{Record, Trace};
use vik_workspace::changes::{Store, read_file};
use vik_workspace::{folder_name, fs as private};

use super::{text, unreadable, view};
use crate::cli::{CliResult, print_result};

/// The file to blame.
struct BlamedFile {
    /// The folder of the issue's workspace that contains the file, if any.
    folder: Option<String>,
    path: RelPath,
    content: Vec<u8>,
}

/// Prints the author of each line of a file.
pub fn run(root: &Path, trace: &Trace, file: &Path, issue: Option<&str>, json: bool) -> CliResult {
    let target = find_file(root, file, issue)?;
    let lines = trace.read().map_err(|error| unreadable(&error))?;
    let records: Vec<Record> = lines
        .into_iter()
        .map(|line| line.record)
        .filter(|record| {
            let folder = target.folder.as_ref();
            folder.is_none_or(|folder| folder_name(&record.vik().issue) == *folder)
        })
        .collect();
    let store = Store::new(&root.join("trace").join("contents"));
    let is_trimmed = trace.removed().map_err(|error| unreadable(&error))? > 0;
    let path = masked(&target.path);
    let blamed = blame::blame(&records, is_trimmed, &path, &target.content, &store);
    let issue_id = issue.map(IssueId::from).or_else(|| {
        let record = records.first().filter(|_| target.folder.is_some())?;
        Some(record.vik().issue.clone())
    });
    let view = blame_view(&records, &target.path, issue_id, &blamed);
    print_result(json, &view, || text::blame(&view, &target.content))
}

fn blame_view(records: &[Record], path: &RelPath, issue_id: Option<IssueId>, blamed: &Blame) -> BlameView {
    let author = |author: blame::Author| match author {
        blame::Author::Attempt(at) => records.get(at).map_or(Author::Unknown, |record| {
            Author::Attempt(Box::new(view::attempt(record)))
        }),
        blame::Author::Outside => Author::Outside,
        blame::Author::Unknown => Author::Unknown,
    };
    let (mut lines, mut whole): (Vec<BlamedLines>, _) = (Vec::new(), None);
    match blamed {
        Blame::Whole(whole_author) => whole = Some(author(*whole_author)),
        Blame::Lines(authors) => {
            let mut number = 0;
            for group in authors.chunk_by(|a, b| a == b) {
                let start = number + 1;
                number += group.len() as u64;
                lines.push(BlamedLines {
                    start,
                    end: number,
                    author: author(group[0]),
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

/// Larger files are not supported.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Reads the file and returns its path as in the records.
fn find_file(root: &Path, file: &Path, issue: Option<&str>) -> Result<BlamedFile, Failure> {
    let issues = root.join("issues");
    let path_text = file.display();
    let missing = || {
        Failure::new(
            Exit::NotFound,
            ErrorCode::NotFound,
            format!("file {path_text} not found"),
        )
        .hint("use --issue ID for a file in the workspace of an issue")
    };
    let failure =
        |error: &std::io::Error| Failure::failed(ErrorCode::Trace, format!("cannot read {path_text}"), error);
    let (folder, relative_path) = match issue {
        Some(issue) => (folder_name(&IssueId::from(issue)), file.to_owned()),
        None => {
            let absolute = std::path::absolute(file).map_err(|error| failure(&error))?;
            let parts = || absolute.strip_prefix(&issues).ok().map(Path::components);
            match parts().and_then(|mut parts| Some((parts.next()?, parts.as_path().to_owned()))) {
                Some((folder, relative_path)) => {
                    (folder.as_os_str().to_string_lossy().into_owned(), relative_path)
                }
                None => {
                    let content = match untrusted::read(&absolute, MAX_FILE_BYTES) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
                        content => content.map_err(|error| failure(&error))?,
                    };
                    let relative_path = path_in_checkout(&absolute);
                    return Ok(BlamedFile {
                        folder: None,
                        path: RelPath::new(relative_path.as_os_str().as_bytes()),
                        content,
                    });
                }
            }
        }
    };
    let path = RelPath::new(relative_path.as_os_str().as_bytes());
    let workspace = match private::open_folder(&issues.join(&folder)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
        workspace => workspace.map_err(|error| failure(&error))?,
    };
    let content = read_file(&workspace, &path).map_err(|error| failure(&error))?;
    Ok(BlamedFile {
        folder: Some(folder),
        content: content.ok_or_else(missing)?,
        path,
    })
}

/// Returns a path relative to the top of its checkout, or else to the current folder or the file's
/// folder.
fn path_in_checkout(file: &Path) -> PathBuf {
    let top = file
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(".git").exists());
    let current_dir = std::env::current_dir().ok();
    let top = top
        .or(current_dir
            .as_deref()
            .filter(|current_dir| file.starts_with(current_dir)))
        .or(file.parent());
    let relative_path = top.and_then(|top| file.strip_prefix(top).ok());
    relative_path.unwrap_or(file).to_owned()
}
