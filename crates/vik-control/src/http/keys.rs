//! Authentication over TCP: a token for programs, and a one-time link for a person's browser.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use vik_mask::Label;
use vik_session::host::{API_TOKEN, API_TOKEN_FILE};
use vik_workspace::fs as private;
use vik_workspace::fs::write_private;

use super::sign_ins::SignIns;

/// The minimum length of a token.
const SHORTEST: usize = 16;

/// How long a link for a browser is valid.
const LINK_LASTS: Duration = Duration::from_secs(15 * 60);

/// Why no token could be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot use the token file {path}")]
    File { path: PathBuf, source: io::Error },
    #[error("the token file {path} is readable by others: set its mode to 0600")]
    Open { path: PathBuf },
    /// The token is too short or contains blanks.
    #[error("the token of {from} must be at least {SHORTEST} visible ASCII characters")]
    Weak {
        /// The variable or file that holds the token.
        from: String,
    },
}

/// The credentials of the API on TCP.
pub struct Keys {
    token: String,
    link: Mutex<Option<Link>>,
    sign_ins: SignIns,
}

struct Link {
    code: String,
    until: Instant,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(…)")
    }
}

impl Keys {
    /// Loads the token of the environment, else of the file that the environment names, else of
    /// `file`, which is created if it is missing. The sign-ins of browsers are kept beside `file`.
    ///
    /// # Errors
    /// When a configured token cannot be used: no other token replaces it.
    pub fn load(file: &Path) -> Result<Self, KeyError> {
        let token = match Self::from_environment()? {
            Some(token) => token,
            None => {
                if !file.exists() {
                    write_private(file, new_secret().as_bytes()).map_err(|source| KeyError::File {
                        path: file.to_owned(),
                        source,
                    })?;
                }
                read(file)?
            }
        };
        let sign_ins = SignIns::load(&file.with_file_name("sign_ins.json"), &token);
        Ok(Self {
            sign_ins,
            ..Self::new(token)
        })
    }

    /// Returns the token of the environment, or of the file that it names; `None` if neither is
    /// set.
    ///
    /// # Errors
    /// When the token cannot be used.
    pub fn from_environment() -> Result<Option<String>, KeyError> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(token) = variable(API_TOKEN) {
            return checked_token(&token.to_string_lossy(), API_TOKEN).map(Some);
        }
        variable(API_TOKEN_FILE)
            .map(|file| read(Path::new(&file)))
            .transpose()
    }

    pub(super) fn new(token: String) -> Self {
        vik_mask::learn([(Label::Key, token.clone())]);
        Self {
            sign_ins: SignIns::in_memory(&token),
            token,
            link: Mutex::new(None),
        }
    }

    /// Creates keys that admit nobody, for a daemon without TCP.
    pub fn closed() -> Self {
        Self::new(new_secret())
    }

    /// Returns whether this is the token, in constant time.
    pub fn is_token(&self, given: &str) -> bool {
        constant_time_eq(given, &self.token)
    }

    /// Returns the code of a one-time link: the current code if it is still valid, else a new one.
    pub fn link(&self) -> String {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        match &*link {
            Some(open) if Instant::now() < open.until => open.code.clone(),
            _ => {
                let code = new_secret();
                *link = Some(Link {
                    code: code.clone(),
                    until: Instant::now() + LINK_LASTS,
                });
                code
            }
        }
    }

    pub fn sign_ins(&self) -> &SignIns {
        &self.sign_ins
    }

    /// Returns whether this is the code of a link that was not used yet.
    pub fn is_link(&self, code: &str) -> bool {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.as_ref()
            .is_some_and(|open| Instant::now() < open.until && constant_time_eq(code, &open.code))
    }

    /// Redeems the code of a link: it is invalid afterwards. Returns whether it was valid.
    pub fn redeem(&self, code: &str) -> bool {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid = link
            .as_ref()
            .is_some_and(|open| Instant::now() < open.until && constant_time_eq(code, &open.code));
        if is_valid {
            *link = None;
        }
        is_valid
    }
}

fn read(path: &Path) -> Result<String, KeyError> {
    let fail = |source| KeyError::File {
        path: path.to_owned(),
        source,
    };
    let mode = path.metadata().map_err(fail)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(KeyError::Open {
            path: path.to_owned(),
        });
    }
    let text = String::from_utf8(private::read(path).map_err(fail)?)
        .map_err(|error| fail(io::Error::other(error)))?;
    checked_token(text.trim(), &path.display().to_string())
}

/// Returns the token if it is long enough and can be part of a header.
fn checked_token(token: &str, from: &str) -> Result<String, KeyError> {
    if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError::Weak {
            from: from.to_owned(),
        });
    }
    Ok(token.to_owned())
}

/// Compares in a time that reveals neither where the texts differ nor how long the secret is.
pub fn constant_time_eq(given: &str, secret: &str) -> bool {
    let digest = |text: &str| Sha256::digest(text.as_bytes());
    digest(given).ct_eq(&digest(secret)).into()
}

/// Returns 244 random bits, in hexadecimal.
pub(super) fn new_secret() -> String {
    let random = || uuid::Uuid::new_v4().simple();
    format!("{}{}", random(), random())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new("0123456789abcdef".to_owned())
    }

    #[test]
    fn token_check_requires_an_exact_match() {
        let keys = keys();
        assert!(keys.is_token("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!keys.is_token(wrong), "{wrong}");
        }
    }

    #[test]
    fn weak_token_is_refused() {
        for weak in [
            "",
            "short",
            "with blanks in it, and long",
            "umlauts-äöü-are-not-visible",
        ] {
            assert!(
                matches!(checked_token(weak, "x"), Err(KeyError::Weak { .. })),
                "{weak}"
            );
        }
    }

    #[test]
    fn sign_in_link_works_once() {
        let keys = keys();
        let code = keys.link();
        assert_eq!(
            code,
            keys.link(),
            "another request does not invalidate the earlier link"
        );
        assert!(!keys.redeem("another"));
        assert!(keys.redeem(&code));
        assert!(!keys.redeem(&code));
        assert_ne!(code, keys.link());
    }

    #[test]
    fn token_file_is_reused_and_must_be_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("api.token");
        let made = read(&file);
        assert!(matches!(made, Err(KeyError::File { .. })));
        write_private(&file, new_secret().as_bytes()).unwrap();
        let first = read(&file).unwrap();
        assert_eq!(read(&file).unwrap(), first);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read(&file), Err(KeyError::Open { .. })));
    }
}
