//! Commands in prompts: found in the template's own text, refused if a value in them could be code,
//! never expanded twice.

use proptest::prelude::*;
use serde_json::json;

use super::run;
use crate::{Part, Prompt, TemplateError, check_prompt, check_script, prompt, script};

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn command(script: &str, line: usize) -> Part {
    Part::Command {
        script: script.to_owned(),
        line,
        has_data: script.contains('\''),
    }
}

fn parts(source: &str) -> Vec<Part> {
    let title = "!`exec(touch x)` `exec(touch y)`";
    let context = json!({"issue": {"id": "E-1", "title": title, "labels": ["a b", "c'd"]}});
    prompt(source, &context).unwrap().parts
}

#[test]
fn commands_are_found_with_and_without_a_bang() {
    assert_eq!(
        parts("Issue:\n!`exec(gh issue view {{ issue.id }})`\nand `exec(date)`!\n"),
        [
            text("Issue:\n"),
            command("gh issue view 'E-1'", 2),
            text("\nand "),
            command("date", 3),
            text("!\n")
        ]
    );
    assert_eq!(
        parts("`exec(echo $(date) (a))`"),
        [command("echo $(date) (a)", 1)]
    );
    assert_eq!(parts("`exec()`"), [command("", 1)]);
}

#[test]
fn values_never_become_commands() {
    assert_eq!(
        parts("{{ issue.title }}"),
        [text("!`exec(touch x)` `exec(touch y)`")]
    );
    assert_eq!(parts("`exec{{ '(' }}touch x)`"), [text("`exec(touch x)`")]);
    assert_eq!(parts("{{ '`exec(touch x)`' }}"), [text("`exec(touch x)`")]);
    let set = "{% set c %}{{ issue.title }}{% endset %}{{ c }}";
    assert_eq!(parts(set), [text("!`exec(touch x)` `exec(touch y)`")]);
    assert_eq!(
        parts("`exec(echo {{ issue.title }})`"),
        [command("echo '!`exec(touch x)` `exec(touch y)`'", 1)]
    );
}

#[test]
fn command_exists_only_where_its_block_is_rendered() {
    assert_eq!(parts("{% if false %}`exec(touch x)`{% endif %}ok"), [text("ok")]);
    assert_eq!(parts("{# `exec(touch x)` #}ok"), [text("ok")]);
    assert_eq!(
        parts("{% for l in issue.labels %}\n- `exec(echo {{ loop.index }} {{ l }})`{% endfor %}"),
        [
            text("\n- "),
            command("echo '1' 'a b'", 2),
            text("\n- "),
            command("echo '2' 'c'\\''d'", 2)
        ]
    );
    assert_eq!(
        parts("`exec(echo {% if true %}{{ issue.id }}{% endif %} {{- '' }})`"),
        [command("echo 'E-1'''", 1)]
    );
    assert_eq!(
        parts("{% raw %}`exec(echo {{.ID}})`{% endraw %}"),
        [command("echo {{.ID}}", 1)]
    );
}

#[test]
fn command_not_closed_in_its_block_is_refused() {
    for source in [
        "\n`exec(echo a",
        "\n`exec(echo {% if true %})`{% endif %}",
        "\n{% if true %}`exec(echo {% endif %})`",
        "\n{% set x %}`exec(date)`{% endset %}",
        "\n{% filter upper %}`exec(date)`{% endfilter %}",
    ] {
        assert!(
            matches!(
                prompt(source, &json!({})),
                Err(TemplateError::Refused { line: 2, .. })
            ),
            "{source}"
        );
    }
}

#[test]
fn output_is_plain_text_with_one_newline_trimmed() {
    let prompt = Prompt {
        parts: vec![text("a "), command("x", 1), text(" b "), command("y", 1)],
    };
    assert_eq!(prompt.commands().collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(
        prompt.join(["{{ issue.id }} `exec(z)`\n\n", "2"]),
        "a {{ issue.id }} `exec(z)`\n b 2"
    );
}

#[test]
fn issue_text_cannot_reach_the_shell_of_a_command() {
    let folder = tempfile::tempdir().unwrap();
    for attack in [
        "$(touch pwned)",
        "'; touch pwned; '",
        "\"; touch pwned; \"",
        "`touch pwned`",
        "\ntouch pwned\n",
        ")`",
        "\u{1}",
    ] {
        let prompt = prompt("`exec(printf %s {{ t }})`", &json!({ "t": attack })).unwrap();
        let script = prompt.commands().next().unwrap().to_owned();
        let (good, output) = run("sh", &script, folder.path());
        assert!(good);
        assert_eq!(String::from_utf8(output).unwrap(), attack);
        assert!(!folder.path().join("pwned").exists());
    }
}

proptest! {
    /// The text around a value is that of the engine alone.
    #[test]
    fn prompts_keep_their_text(value in "[^\0]{0,40}") {
        let prompt = prompt("a {{ v }} b\n", &json!({ "v": value })).unwrap();
        prop_assert_eq!(prompt.parts, [Part::Text(format!("a {value} b\n"))]);
    }

    /// No template makes the reader panic, whatever it contains.
    #[test]
    fn arbitrary_template_does_not_panic(
        pieces in proptest::collection::vec(prop_oneof![
            prop::sample::select(vec![
                "{{", "}}", "{%", "%}", "{#", "#}", " if ", " endif ", "`exec(", ")`", "!", "v", "-", "for x in v",
                "endfor", "set v = 1", "raw", "endraw", "\n", "'", "\"", "$(", "<<E", "\\", "é", "\u{1}", "|upper", "(", ")",
            ]).prop_map(str::to_owned),
            ".{0,4}",
        ], 0..24)
    ) {
        let source = pieces.concat();
        let context = json!({ "v": "a" });
        let _ = prompt(&source, &context);
        let _ = script(&source, &context);
        let _ = check_prompt(&source, &["v"]);
        let _ = check_script(&source, &["v"]);
    }
}
