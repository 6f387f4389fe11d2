//! Safe outputs: the prompt section for an agent, the credentials that are withheld from it, and
//! the reading and carrying out of its requests, on this machine or by a hub. [`vik_core::outputs`]
//! decides what is allowed, and the attempt ([`crate::attempt`]) has it done.

mod credential_guard;
mod hub;
mod prompt;
mod request;
mod runner;

use std::io;
use std::path::Path;

use vik_base::report::one_line;
use vik_core::outputs::{self as core, Line, MAX_FILE_BYTES, OutputPolicy, Refusal, Rule};
use vik_proc::untrusted;

#[cfg(test)]
pub use credential_guard::read_settings;
pub use credential_guard::{CredentialGuard, Leak};
pub use hub::apply_for_worker;
pub use prompt::{section, value};
pub use request::{OutputHub, OutputRequest, OutputResponse};
pub use runner::{
    AppliedOutputs, NotApplied, OutputAttempt, OutputControl, OutputResult, OutputRunner, sample,
};

/// The variable with the path of the file of outputs, for the agent.
pub const FILE: &str = "VIK_OUTPUTS";

pub const FILE_NAME: &str = "outputs.jsonl";

/// Returns the whole content of an agent's file of outputs. The agent controls the file: it may be
/// missing, a link, a pipe, or endless.
///
/// # Errors
/// When the file exists and cannot be read as a regular file, or is too large.
pub fn read_output_file(file: &Path) -> io::Result<Vec<u8>> {
    match untrusted::read(file, MAX_FILE_BYTES as u64) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(io::Error::other(format!("larger than {MAX_FILE_BYTES} bytes")))
        }
        read => read,
    }
}

/// Returns refusals of the outputs that contain a secret which this process knows, or text that
/// looks like one.
pub fn secrets(lines: &[Line]) -> Vec<Refusal> {
    let holds = |text: &str| vik_mask::mask(text) != text;
    let refusal = |line: &Line| {
        let fields = line.output.fields().into_iter();
        let mut texts = fields.chain([("body", line.output.body())]);
        let (name, _) = texts.find(|(_, text)| holds(text))?;
        Some(Refusal::of(
            line,
            Rule::Secret,
            format!("`{name}` contains a secret"),
        ))
    };
    lines.iter().filter_map(refusal).collect()
}

/// Returns one line for each output of an attempt if a person has to approve any of them, and
/// nothing otherwise.
pub fn to_be_approved(lines: &[Line], policy: &OutputPolicy) -> Vec<String> {
    let outputs: Vec<_> = lines.iter().map(|line| line.output.clone()).collect();
    if core::needs_approval(&outputs, policy).is_empty() {
        return Vec::new();
    }
    let describe = |output: &core::Output| format!("{}: {}", output.kind(), one_line(output.summary(), 100));
    outputs.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_file_must_be_regular_and_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE_NAME);
        assert_eq!(read_output_file(&file).unwrap(), b"", "nothing was asked for");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(read_output_file(&file).unwrap(), b"x");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        read_output_file(&link).unwrap_err();
        read_output_file(folder.path()).unwrap_err();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        read_output_file(&pipe).unwrap_err();
        std::fs::write(&file, vec![b' '; MAX_FILE_BYTES]).unwrap();
        assert_eq!(read_output_file(&file).unwrap().len(), MAX_FILE_BYTES);
        std::fs::write(&file, vec![b' '; MAX_FILE_BYTES + 1]).unwrap();
        read_output_file(&file).unwrap_err();
    }
}
