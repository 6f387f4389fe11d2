//! Git under a shim, without the settings of the user and of the system.

use std::ffi::OsString;
use std::path::Path;

use vik_proc::ShimSpec;

/// Creates the spec of a git command. `env` is added to the variables that every command needs.
pub(crate) fn isolated_spec<'e>(
    folder: &Path,
    git_dir: &Path,
    args: &[&str],
    env: impl IntoIterator<Item = (&'e str, OsString)>,
) -> ShimSpec {
    let mut spec = ShimSpec::command("git", folder);
    spec.args = args.iter().map(OsString::from).collect();
    let shared = [
        ("PATH", std::env::var_os("PATH").unwrap_or_default()),
        ("LC_ALL", "C".into()),
        ("GIT_DIR", git_dir.into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
        ("GIT_NO_LAZY_FETCH", "1".into()),
        ("GIT_NO_REPLACE_OBJECTS", "1".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
    ];
    let env = shared.into_iter().chain(env);
    spec.env = env.map(|(name, value)| (name.into(), value)).collect();
    spec
}
