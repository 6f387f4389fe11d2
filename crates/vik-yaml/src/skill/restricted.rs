//! A SKILL.md for an agent that grants what its front matter demands: without the fields that permit
//! tools or run commands.

use super::{Manifest, Parts, is_key, parse, split};

/// The fields that Claude Code acts on with more rights than the workflow gives, without `-` and `_`.
const GRANTS: [&str; 2] = ["allowedtools", "hooks"];

/// Returns a SKILL.md in a folder of this name without the fields `allowed-tools` and `hooks`. All
/// other text stays as it is, unless a parser could find other fields in the front matter than this
/// one does: then a new one has only the name and the description.
///
/// # Errors
/// Those of [`Manifest::read`].
pub fn without_grants(text: &str, folder: &str) -> Result<String, String> {
    let Parts { front, body, .. } = split(text);
    let (manifest, _) = Manifest::read(front, folder)?;
    let front = without_fields(front)
        .filter(|kept| Manifest::read(kept, folder).is_ok_and(|(own, _)| is_same(&own, &manifest)))
        .unwrap_or_else(|| minimal(&manifest));
    Ok(format!("---\n{front}---\n{body}"))
}

fn is_same(own: &Manifest, other: &Manifest) -> bool {
    (&own.name, &own.description) == (&other.name, &other.description)
}

fn minimal(manifest: &Manifest) -> String {
    let quoted = |text: &str| text.replace('\'', "''");
    let (name, description) = (quoted(&manifest.name), quoted(&manifest.description));
    format!("name: '{name}'\ndescription: '{description}'\n")
}

/// Removes the fields and their values; `None` if the front matter is not the simplest kind of YAML:
/// plain keys at the start of a line, each followed by lines of its value.
fn without_fields(front: &str) -> Option<String> {
    let mut kept = String::new();
    let mut is_kept = None;
    for line in front.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        let content = content.strip_suffix('\r').unwrap_or(content);
        // Some parsers end a line at these, too.
        if content.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
            return None;
        }
        let is_continued = content.is_empty() || content.starts_with([' ', '#']) || content.starts_with("- ");
        if !is_continued {
            let (key, value) = content.split_once(':')?;
            if !is_key(key) || !(value.is_empty() || value.starts_with(' ')) {
                return None;
            }
            is_kept = Some(!is_grant(key));
        } else if is_kept.is_none() && content.starts_with([' ', '-']) {
            return None;
        }
        if is_kept.unwrap_or(true) {
            kept += content;
            kept.push('\n');
        }
    }
    let fields = parse(&kept).ok()?;
    (!fields.iter().any(|(key, _)| is_grant(key))).then_some(kept)
}

fn is_grant(key: &str) -> bool {
    let letters = key.chars().filter(|c| c.is_alphanumeric());
    let name: String = letters.flat_map(char::to_lowercase).collect();
    GRANTS.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_removed_and_all_other_fields_stay() {
        for (front, kept) in [
            ("", ""),
            ("allowed-tools: Bash\n", ""),
            ("allowed-tools: Bash\r\n", ""),
            ("allowed-tools : Bash\n", ""),
            ("allowed-tools: Read\nallowed-tools: Bash\n", ""),
            ("Allowed_Tools: Bash\nallowedTools: Bash\n", ""),
            ("allowed-tools:\n  - Bash\n\n  # all\n  - Read\n", ""),
            ("allowed-tools:\n- Bash\n- Read\n", ""),
            ("allowed-tools: [Bash,\n  Read]\nmodel: m\n", "model: m\n"),
            (
                "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: id}]\nmodel: m\n",
                "model: m\n",
            ),
            ("disallowed-tools: Bash\n", "disallowed-tools: Bash\n"),
            (
                "# allowed-tools: Bash\nmetadata:\n  hooks: a\n",
                "# allowed-tools: Bash\nmetadata:\n  hooks: a\n",
            ),
        ] {
            let text =
                format!("---\nname: a\n{front}description: x\n---\nBody\r\n---\nallowed-tools: Bash\n");
            let expected =
                format!("---\nname: a\n{kept}description: x\n---\nBody\r\n---\nallowed-tools: Bash\n");
            assert_eq!(without_grants(&text, "a").unwrap(), expected, "{front}");
        }
        let text = "\u{feff}---\r\nname: a\r\nallowed-tools: Bash\r\ndescription: x\r\n--- \r\n\r\nBody";
        let expected = "---\nname: a\ndescription: x\n---\n\r\nBody";
        assert_eq!(without_grants(text, "a").unwrap(), expected);
    }

    #[test]
    fn front_matter_that_parsers_could_read_differently_is_replaced() {
        for front in [
            "name: a\ndescription: x\n\"allowed-tools\": Bash\n",
            "name: a\ndescription: x\n'hooks': {}\n",
            "name: a\ndescription: x\n\"allowed\\x2dtools\": Bash\n",
            "name: a\ndescription: x\n? allowed-tools\n: Bash\n",
            "name: a\ndescription: x\n!!str allowed-tools: Bash\n",
            "name: a\ndescription: x\n&k allowed-tools: Bash\n",
            "name: a\ndescription: x\n<<: {allowed-tools: Bash}\n",
            "name: a\ndescription: x\nallowed-tools:\tBash\n",
            "name: a\ndescription: x\n\tallowed-tools: Bash\n",
            "name: a\ndescription: x\rallowed-tools: Bash\n",
            "name: a\ndescription: x\u{b}allowed-tools: Bash\n",
            "name: a\ndescription: \"x\"\u{2028}allowed-tools: Bash\n",
            "name: a\ndescription: x\nlicense: y\u{85}allowed-tools: Bash\n",
            "name: a\ndescription: x\nlicense: {y: z\nallowed-tools: Bash\n",
            "name: a\ndescription: x\nlicense: \"y\nallowed-tools: z\"\n",
            "{name: a, description: x, allowed-tools: Bash}\n",
            "  name: a\n  description: x\n  allowed-tools: Bash\n",
            "%YAML 1.2\nname: a\ndescription: x\nallowed-tools: Bash\n",
            "name: a\ndescription: x\n...\nallowed-tools: Bash\n",
            "name: a\ndescription: x\nlicense: [y\nallowed-tools: Bash\n",
        ] {
            let Ok(text) = without_grants(&format!("---\n{front}---\nBody"), "a") else {
                // Such a file is no skill.
                assert!(Manifest::read(front, "a").is_err());
                continue;
            };
            let lines: Vec<_> = text.lines().map(|line| line.split(':').next()).collect();
            let keys = ["---", "name", "description", "---", "Body"].map(Some);
            assert_eq!(lines, keys, "{front:?}: {text:?}");
        }
    }

    #[test]
    fn new_front_matter_has_only_name_and_description() {
        let text = "---\nname: a\ndescription: it's: \"x\"\nallowed-tools: @all\n---\nBody";
        let expected = "---\nname: 'a'\ndescription: 'it''s: \"x\"'\n---\nBody";
        assert_eq!(without_grants(text, "a").unwrap(), expected);
        assert!(without_grants("Body", "a").is_err());
    }
}
