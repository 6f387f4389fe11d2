//! The text that a person sends: arguments, a file, or stdin.

use std::io::{IsTerminal, Read};
use std::path::Path;

use vik_base::report::{ErrorCode, Exit, Failure};

use super::issue_arg::IssueAndText;

/// The most that is read of a file or of stdin, in bytes.
const MAX_READ: u64 = 16 << 20;

/// Returns the text of a `subject` such as "message". Without a text and a file, or with `-`, it is
/// read from stdin.
///
/// # Errors
/// If there are both, or if the source cannot be read, is not UTF-8, or is a terminal; `invalid` is
/// the code of unreadable sources.
#[expect(clippy::disallowed_methods, reason = "reads the file that a person names")]
pub fn text(
    subject: &str,
    args: &IssueAndText,
    file: Option<&Path>,
    invalid: ErrorCode,
) -> Result<String, Failure> {
    let (stdin, texts) = (std::io::stdin(), args.text());
    if file.is_some() {
        args.without_text("--file")?;
    }
    let is_stdin = match (file, &*texts) {
        (Some(_), _) => false,
        (None, []) if stdin.is_terminal() => {
            let problem = format!("the {subject} has no text");
            let failure = Failure::new(Exit::Usage, ErrorCode::Usage, problem);
            return Err(failure.hint("write it after the issue, or use --file FILE or `-` for stdin"));
        }
        (None, texts) => texts.is_empty() || texts == ["-"],
    };
    let failed = |name: &str, error: &(dyn std::error::Error + 'static)| {
        Failure::failed(invalid, format!("cannot read {name}"), error)
    };
    let read = |source: &mut dyn Read, name: &str| {
        let mut bytes = Vec::new();
        let read = source.take(MAX_READ).read_to_end(&mut bytes);
        read.map_err(|error| failed(name, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| failed(name, &error))?;
        // Editors and `echo` end the last line, and some end all lines with a carriage return.
        Ok(text.replace("\r\n", "\n").trim_end_matches('\n').to_owned())
    };
    match file {
        Some(path) => {
            let name = format!("`{}`", path.display());
            let mut file = std::fs::File::open(path).map_err(|error| failed(&name, &error))?;
            read(&mut file, &name)
        }
        None if is_stdin => read(&mut stdin.lock(), "stdin"),
        None => Ok(texts.join(" ")),
    }
}
