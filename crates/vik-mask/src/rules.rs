//! Rules that recognize text which looks like a secret, at one position of a text.
//!
//! Each rule uses the text from this position on and the byte before it, never more before: so a
//! text in pieces gives the same result as the whole. A rule that reaches the end of a piece asks
//! for more.

mod values;

use std::ops::Range;

use self::values::{
    alphanumeric, aws_id, base64, basic, bearer, dotted, jwt, last_base64_end, mixed, run, slack, trimmed,
};
pub(super) use self::values::{dashed, identifier, secret_value};

/// The maximum length of the name of a value, in bytes.
pub(super) const MAX_NAME: usize = 64;
/// The maximum length of a value, in bytes; longer text is data.
const MAX_VALUE: usize = 4096;
/// The maximum length of a token, in bytes; a JWT may be long.
const MAX_TOKEN: usize = 8 * 1024;
/// The maximum length of a private key, in bytes.
const MAX_PEM: usize = 16 * 1024;
/// The maximum length of `user:password@` in an address, in bytes.
const MAX_USERINFO: usize = 512;

/// The verdict of a rule about a position.
pub(super) enum Verdict {
    /// A secret starts here or shortly after.
    Secret(Range<usize>, &'static str),
    /// More text is needed for a decision.
    More,
    No,
}

/// A token with a known prefix.
pub(super) struct Token {
    kind: &'static str,
    pub(super) prefix: &'static str,
    class: fn(u8) -> bool,
    /// Whether the text after the prefix is like that of a real token.
    real: fn(&[u8]) -> bool,
}

/// The tokens by their prefixes; a longer prefix precedes a shorter one of the same kind.
pub(super) const TOKENS: &[Token] = &[
    token("api_key", "sk-ant-", dashed, |tail| {
        tail.len() >= 16 && mixed(tail)
    }),
    token("api_key", "sk-", dashed, |tail| tail.len() >= 20 && mixed(tail)),
    token("api_key", "sk_live_", alphanumeric, |tail| tail.len() >= 16),
    token("api_key", "rk_live_", alphanumeric, |tail| tail.len() >= 16),
    token("api_key", "gsk_", alphanumeric, |tail| tail.len() >= 32),
    token("api_key", "xai-", alphanumeric, |tail| tail.len() >= 32),
    token("api_key", "hf_", alphanumeric, |tail| tail.len() >= 30),
    token("api_key", "npm_", alphanumeric, |tail| tail.len() >= 36),
    token("api_key", "AIza", dashed, |tail| tail.len() >= 35),
    token("slack_token", "xoxb-", dashed, slack),
    token("slack_token", "xoxp-", dashed, slack),
    token("slack_token", "xoxa-", dashed, slack),
    token("slack_token", "xoxr-", dashed, slack),
    token("slack_token", "xoxs-", dashed, slack),
    token("slack_token", "xapp-", dashed, slack),
    token("aws_key", "AKIA", alphanumeric, aws_id),
    token("aws_key", "ASIA", alphanumeric, aws_id),
    token("github_token", "github_pat_", identifier, |tail| tail.len() >= 22),
    token("github_token", "ghp_", alphanumeric, |tail| tail.len() >= 20),
    token("github_token", "gho_", alphanumeric, |tail| tail.len() >= 20),
    token("github_token", "ghu_", alphanumeric, |tail| tail.len() >= 20),
    token("github_token", "ghs_", alphanumeric, |tail| tail.len() >= 20),
    token("github_token", "ghr_", alphanumeric, |tail| tail.len() >= 20),
    token("gitlab_token", "glpat-", dashed, |tail| tail.len() >= 20),
    token("jwt", "eyJ", dotted, jwt),
];

const fn token(
    kind: &'static str,
    prefix: &'static str,
    class: fn(u8) -> bool,
    real: fn(&[u8]) -> bool,
) -> Token {
    Token {
        kind,
        prefix,
        class,
        real,
    }
}

/// The endings of names of secret values, in lower case, with `_` for `-`.
pub(super) const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "accesskey",
    "secret_key",
    "secretkey",
    "private_key",
    "privatekey",
    "account_key",
    "accountkey",
    "signing_key",
    "encryption_key",
    "credential",
    "credentials",
];

/// Examines the start of `text`; `before` is the byte before it, `whole` whether nothing follows
/// it.
pub(super) fn at(text: &[u8], before: Option<u8>, whole: bool) -> Verdict {
    match text.first() {
        Some(b'-') => private_key(text, whole),
        Some(b':') => address(text, whole),
        Some(first) if identifier(*first) && !before.is_some_and(identifier) => {
            let verdict = known_token(text, whole);
            if !matches!(verdict, Verdict::No) {
                return verdict;
            }
            match login(text, whole) {
                Verdict::No => assignment(text, before, whole),
                verdict => verdict,
            }
        }
        _ => Verdict::No,
    }
}

/// Returns whether a name marks its value as a secret.
pub(super) fn names_secret(name: &[u8]) -> bool {
    // The last letters of all endings.
    let last = name.last().map(u8::to_ascii_lowercase);
    if !matches!(last, Some(b'd' | b'e' | b't' | b'n' | b'y' | b'l' | b's')) {
        return false;
    }
    let plain = |byte: &u8| match byte {
        b'-' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    SECRET_NAMES.iter().any(|end| {
        let Some(start) = name.len().checked_sub(end.len()) else {
            return false;
        };
        name[start..].iter().map(plain).eq(end.bytes())
    })
}

/// Returns whether the name of a variable marks it as a key. Such a name is stronger evidence than
/// one in a text.
pub(super) fn names_key(name: &[u8]) -> bool {
    let ends = |end: &[u8]| {
        name.len()
            .checked_sub(end.len())
            .is_some_and(|at| name[at..].eq_ignore_ascii_case(end))
    };
    names_secret(name) || ends(b"_key") || ends(b"_pat")
}

/// Returns whether a text starts with the prefix of a token or the scheme of a login.
pub(super) fn starts_token_or_login(text: &[u8]) -> bool {
    let has_scheme = |scheme: &[u8]| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    TOKENS
        .iter()
        .any(|token| text.starts_with(token.prefix.as_bytes()))
        || has_scheme(b"bearer")
        || has_scheme(b"basic")
}

/// Returns whether a secret can start with a byte: other positions are skipped.
pub(super) fn may_start(byte: u8) -> bool {
    identifier(byte) || matches!(byte, b'-' | b':')
}

/// Returns the remaining length of an identifier, inside of which nothing can start.
pub(super) fn identifier_len(text: &[u8]) -> usize {
    run(text, identifier)
}

fn known_token(text: &[u8], whole: bool) -> Verdict {
    if !matches!(
        text.first(),
        Some(b's' | b'r' | b'g' | b'x' | b'h' | b'n' | b'A' | b'e')
    ) {
        return Verdict::No;
    }
    for token in TOKENS {
        let prefix = token.prefix.as_bytes();
        if text.len() < prefix.len() {
            if !whole && prefix.starts_with(text) {
                return Verdict::More;
            }
            continue;
        }
        if !text.starts_with(prefix) {
            continue;
        }
        // Bounded, because a sequence of prefixes would otherwise be read repeatedly.
        let most = text.len().min(if token.kind == "jwt" {
            MAX_TOKEN
        } else {
            MAX_TOKEN / 8
        });
        let end = prefix.len() + run(&text[prefix.len()..most.max(prefix.len())], token.class);
        if end == text.len() && !whole {
            return Verdict::More;
        }
        if end == most && most < text.len() {
            continue;
        }
        let tail = trimmed(&text[prefix.len()..end]);
        if (token.real)(tail) {
            return Verdict::Secret(0..prefix.len() + tail.len(), token.kind);
        }
    }
    Verdict::No
}

/// Recognizes `Bearer TOKEN` and `Basic BASE64`, as in the header of a request.
fn login(text: &[u8], whole: bool) -> Verdict {
    if !matches!(text.first(), Some(b'b' | b'B')) {
        return Verdict::No;
    }
    for (scheme, kind, real) in [
        ("bearer", "bearer", bearer as fn(&[u8]) -> bool),
        ("basic", "basic", basic),
    ] {
        let length = scheme.len().min(text.len());
        if !text[..length].eq_ignore_ascii_case(&scheme.as_bytes()[..length]) {
            continue;
        }
        let spaces = run(&text[length..], |byte| byte == b' ');
        let start = length + spaces;
        let end = start + run(&text[start..], |byte| dotted(byte) || b"+/=~".contains(&byte));
        // A long run of spaces is not followed by a token and must not be held back forever.
        if spaces > 4 || (length == scheme.len() && spaces == 0 && length < text.len()) {
            continue;
        }
        if end == text.len() && !whole {
            return Verdict::More;
        }
        let value = trimmed(&text[start..end]);
        if spaces > 0 && real(value) {
            return Verdict::Secret(start..start + value.len(), kind);
        }
    }
    Verdict::No
}

/// Recognizes `name = value` if the name marks a secret and the value is no ordinary word.
fn assignment(text: &[u8], before: Option<u8>, whole: bool) -> Verdict {
    let name_end = run(&text[..text.len().min(MAX_NAME + 1)], dashed);
    if name_end > MAX_NAME {
        return Verdict::No;
    }
    let ran_out = |at: usize| {
        if at == text.len() && !whole {
            Verdict::More
        } else {
            Verdict::No
        }
    };
    let name = &text[..name_end];
    if name_end == text.len() {
        return ran_out(name_end);
    }
    if !names_secret(name) {
        return Verdict::No;
    }
    let spaces = |at: usize| at + run(&text[at..], |byte| byte == b' ' || byte == b'\t').min(8);
    let quote = |at: usize| {
        text.get(at)
            .copied()
            .filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))
    };
    // `"name": "value"`, `name := 'value'`, `NAME=value`, `name => "value"`, `\"name\": \"value\"`.
    let escaped = |at: usize| at + usize::from(text.get(at) == Some(&b'\\'));
    let mut at = escaped(name_end);
    at += usize::from(quote(at).is_some());
    let named = spaces(at);
    let sign = named + run(&text[named..], |byte| matches!(byte, b':' | b'=' | b'>')).min(3);
    if sign == named {
        return ran_out(sign);
    }
    let at = escaped(spaces(sign));
    let quoted = quote(at);
    let start = at + usize::from(quoted.is_some());
    let tail = &text[start..text.len().min(start + MAX_VALUE + 1)];
    let end = start
        + match quoted {
            Some(quote) => run(tail, |byte| {
                byte != quote && byte != b'\\' && !byte.is_ascii_whitespace()
            }),
            None => run(tail, |byte| {
                !byte.is_ascii_whitespace() && !b"\"'`,;()[]{}<>&|\\#".contains(&byte)
            }),
        };
    if end - start > MAX_VALUE {
        return Verdict::No;
    }
    if end == text.len() && !whole {
        return Verdict::More;
    }
    let follows = text.get(end);
    let closed = match quoted {
        Some(quote) => follows.is_none_or(|byte| *byte == quote || *byte == b'\\'),
        // `token = make(…)` is code.
        None => !matches!(follows, Some(b'(' | b'[' | b'{' | b'<')),
    };
    let value = if quoted.is_some() {
        &text[start..end]
    } else {
        trimmed(&text[start..end])
    };
    // Less evidence is needed where only a value can follow.
    let as_setting = named == name_end
        && sign - named == 1
        && at == sign
        && (!name.iter().any(u8::is_ascii_lowercase) || matches!(before, Some(b'?' | b'&')));
    if closed && secret_value(value, quoted.is_some() || as_setting) {
        let kind = match known_token(value, true) {
            Verdict::Secret(range, kind) if range == (0..value.len()) => kind,
            _ => "secret",
        };
        return Verdict::Secret(start..start + value.len(), kind);
    }
    Verdict::No
}

/// Recognizes the password in an address, between the user's name and the host.
fn address(text: &[u8], whole: bool) -> Verdict {
    let sign = b"://";
    if !text.starts_with(sign) {
        return if !whole && sign.starts_with(text) {
            Verdict::More
        } else {
            Verdict::No
        };
    }
    let userinfo = run(&text[sign.len()..], |byte| {
        !byte.is_ascii_whitespace() && !b"/\"'`<>\\?#,;()|".contains(&byte)
    });
    let end = sign.len() + userinfo;
    if userinfo > MAX_USERINFO {
        return Verdict::No;
    }
    if end == text.len() && !whole {
        return Verdict::More;
    }
    let userinfo = &text[sign.len()..end];
    let Some(at) = userinfo.iter().rposition(|byte| *byte == b'@') else {
        return Verdict::No;
    };
    let Some(colon) = userinfo[..at].iter().position(|byte| *byte == b':') else {
        return Verdict::No;
    };
    let password = &userinfo[colon + 1..at];
    match password.first() {
        // A template or a placeholder.
        None | Some(b'$' | b'{' | b'[' | b'*' | b'%' | b'.') => Verdict::No,
        Some(_) => Verdict::Secret(sign.len() + colon + 1..sign.len() + at, "password"),
    }
}

/// Recognizes a private key in PEM, from its first line to its last, or as far as it extends.
fn private_key(text: &[u8], whole: bool) -> Verdict {
    let header = b"-----BEGIN ";
    if !text.starts_with(header) {
        return if !whole && header.starts_with(text) {
            Verdict::More
        } else {
            Verdict::No
        };
    }
    let name = run(&text[header.len()..], |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
    });
    let head = header.len() + name;
    if name > MAX_NAME {
        return Verdict::No;
    }
    let dashes = run(&text[head..], |byte| byte == b'-').min(5);
    if head + dashes == text.len() && !whole {
        return Verdict::More;
    }
    let is_private = text[header.len()..head]
        .windows(11)
        .any(|word| word == b"PRIVATE KEY");
    if dashes < 5 || !is_private {
        return Verdict::No;
    }
    // Keys also occur in strings with escaped line ends, in diffs and after line numbers.
    let body = head + dashes;
    let limit = text.len().min(body + MAX_PEM);
    let in_key = |byte: u8| base64(byte) || byte.is_ascii_whitespace() || b"-:,|\\\"'.".contains(&byte);
    let reach = body + run(&text[body..limit], in_key);
    let end_mark = b"-----END ";
    if let Some(at) = find(&text[body..reach], end_mark) {
        let name = body + at + end_mark.len();
        let last = name
            + run(&text[name..], |byte| {
                byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
            })
            .min(MAX_NAME);
        let dashes = run(&text[last..], |byte| byte == b'-').min(5);
        let last = last + dashes;
        if last == text.len() && dashes < 5 && !whole {
            return Verdict::More;
        }
        let has_key = last_base64_end(&text[body..body + at]).is_some();
        return if has_key {
            Verdict::Secret(0..last, "private_key")
        } else {
            Verdict::No
        };
    }
    if reach == text.len() && !whole {
        return Verdict::More;
    }
    match last_base64_end(&text[body..reach]) {
        Some(end) => Verdict::Secret(0..body + end, "private_key"),
        None => Verdict::No,
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
