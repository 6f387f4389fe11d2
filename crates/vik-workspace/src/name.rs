//! The folder name for the id of an issue, which is untrusted text.

use ring::digest::{SHA256, digest};
use vik_core::ids::IssueId;

/// The longest id that is its own folder name, in bytes.
const MAX_PLAIN_BYTES: usize = 100;
/// The longest slug, in bytes.
const MAX_SLUG_BYTES: usize = 40;

/// Returns the name of an issue's folder: the id itself if it is `[A-Za-z0-9._-]{1,100}` and does
/// not start with a dot, otherwise a readable slug, `~`, and a hash of the id.
///
/// Two ids never have the same name: a plain id has no `~`, and the hash distinguishes the others.
/// On a file system that ignores case, however, plain ids that differ only in case have the same
/// folder.
///
/// # Examples
///
/// ```
/// use vik_workspace::folder_name;
///
/// assert_eq!(folder_name(&"ENG-7".into()), "ENG-7");
/// let name = folder_name(&"../../etc".into());
/// assert!(name.starts_with("etc~") && !name.contains('/'));
/// ```
pub fn folder_name(issue: &IssueId) -> String {
    let id = issue.as_str();
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    if (1..=MAX_PLAIN_BYTES).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(plain) {
        return id.to_owned();
    }
    slug_and_hash(id, '~')
}

/// Returns a name for untrusted text that is safe in a ref and a path: the text itself if it is
/// `[A-Za-z0-9_-]{1,100}`, otherwise a readable slug, `+`, and a hash. Two texts never have the same
/// name.
pub(super) fn unique_name(text: &str) -> String {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    if (1..=MAX_PLAIN_BYTES).contains(&text.len()) && text.bytes().all(plain) {
        return text.to_owned();
    }
    slug_and_hash(text, '+')
}

fn slug_and_hash(id: &str, separator: char) -> String {
    let mut slug = String::new();
    for c in id.chars() {
        if slug.len() >= MAX_SLUG_BYTES {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    let slug = if slug.is_empty() { "issue" } else { slug };
    format!("{slug}{separator}{}", short_hash(id.as_bytes()))
}

/// Returns the first 64 bits of a SHA-256, as 16 lower-case hex digits.
pub(super) fn short_hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref()[..8]
        .iter()
        .fold(String::with_capacity(16), |mut text, byte| {
            use std::fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        })
}
