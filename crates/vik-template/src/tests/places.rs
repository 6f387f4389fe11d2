//! A value is one part of one word, and never code, at every place.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::{cases, run, shells};
use crate::script;

/// Places of a value, and the arguments that `printf '%s\0'` must then receive; `@` is the value.
const PLACES: &[(&str, &[&str])] = &[
    ("{{ @ }}", &["@"]),
    ("a{{ @ }}", &["a@"]),
    ("{{ @ }}b", &["@b"]),
    ("--opt={{ @ }}", &["--opt=@"]),
    ("~{{ @ }}", &["~@"]),
    ("'{{ @ }}'", &["@"]),
    ("'a b{{ @ }}c d'", &["a b@c d"]),
    ("\"{{ @ }}\"", &["@"]),
    ("\"a b{{ @ }}c d\"", &["a b@c d"]),
    ("\"it's \\\"{{ @ }}\\\"\"", &["it's \"@\""]),
    ("\"\\$\\\\{{ @ }}\"", &["$\\@"]),
    ("\"$UNSET{{ @ }}\"", &["@"]),
    ("\"$#{{ @ }}\"", &["0@"]),
    ("$#{{ @ }}", &["0@"]),
    ("x\"y\"{{ @ }}'z'", &["xy@z"]),
    ("{{ @ }}{{ @ }}", &["@@"]),
    ("{{ @ }} '{{ @ }}' \"{{ @ }}\"", &["@", "@", "@"]),
    ("{{ @ if true else 'x' }}", &["@"]),
    ("{{ 'a' ~ @ }}", &["a@"]),
    ("{{ @ | safe }}", &["@"]),
    ("{% for part in [@, @] %}{{ part }} {% endfor %}", &["@", "@"]),
    ("{% if true %}\"{% endif %}{{ @ }}\"", &["@"]),
    ("{% set y = @ %}{{ y }}", &["@"]),
    ("{% raw %}'{{'{% endraw %} {{ @ }}", &["{{", "@"]),
    ("a\\\nb{{ @ }}", &["ab@"]),
    ("\"a\\\nb{{ @ }}\"", &["ab@"]),
    ("\\'{{ @ }}\\'", &["'@'"]),
    ("\\\"{{ @ }}", &["\"@"]),
    ("a#{{ @ }}", &["a#@"]),
    ("$(: ')' \")\" $(:) )x{{ @ }}", &["x@"]),
    ("\"$(echo \"a b\")\"{{ @ }}", &["a b@"]),
    ("${UNSET:-d}{{ @ }}", &["d@"]),
    ("$((1 + (2 * 3))){{ @ }}", &["7@"]),
    ("`echo a`{{ @ }}", &["a@"]),
    ("$(printf '%s.' {{ @ }} | wc -l | tr -dc x)x", &["x"]),
];

fn value() -> impl Strategy<Value = String> {
    let special = vec![
        "'",
        "\"",
        "`",
        "$",
        "\\",
        "\n",
        "$(",
        ")",
        "${",
        "}",
        "#",
        ";",
        "&",
        "|",
        "<",
        ">",
        " ",
        "\t",
        "*",
        "?",
        "[",
        "~",
        "!",
        "-",
        "--",
        "=",
        "\r",
        "é",
        "日本",
        "あいう",
        "😀",
        "\u{1}",
        "\u{7f}",
        "\u{80}",
        "{{ issue.id }}",
        "{% raw %}",
        "$$",
        "EOF\n",
        "\\n",
        "%s",
        "touch x",
        "`exec(touch x)`",
        "\u{200b}",
        "'\\''",
    ];
    let piece = prop_oneof![
        4 => prop::sample::select(special).prop_map(str::to_owned),
        1 => "[^\0]{0,6}",
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(cases(16))]

    /// Many places in each shell process: `printf` shows the arguments exactly.
    #[test]
    fn shells_receive_the_exact_value(values in vec(value(), PLACES.len())) {
        let mut source = String::from("#!/bin/sh\n");
        let mut expected = Vec::new();
        for (index, (place, words)) in PLACES.iter().enumerate() {
            source.push_str("printf '%s\\0' ");
            source.push_str(&place.replace('@', &format!("v[{index}]")));
            source.push_str("\nprintf '%s\\0' '--'\n");
            expected.extend(words.iter().map(|word| word.replace('@', &values[index])));
            expected.push("--".to_owned());
        }
        let script = script(&source, &json!({ "v": values })).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for shell in shells() {
            let (good, output) = run(shell, &script, folder.path());
            prop_assert!(good, "{shell} refuses\n{script}");
            let output = String::from_utf8(output).unwrap();
            let words: Vec<&str> = output.split('\0').collect();
            prop_assert_eq!(&words[..words.len() - 1], &expected[..], "{}", shell);
        }
    }
}

/// Places of a value other than arguments: it must stay the same.
#[test]
fn assignments_redirections_and_patterns_take_values() {
    let value = "a b'; touch x; \"$(touch y)\n*";
    let source = r#"
set -- ; X={{ v }}; Y="{{ v }}" ; export Z={{ v }}
printf '%s\0' "$X" "$Y" "$Z"
case {{ v }} in {{ v }}) printf 'case\0' ;; *) printf 'other\0' ;; esac
case 'x' in ({{ v }} | "{{ v }}") printf 'bad\0' ;; esac
for word in {{ v }} '{{ v }}'; do printf '%s\0' "$word"; done
if [ "$X" = {{ v }} ] && test {{ v }} = "$Y"; then printf 'same\0'; fi
printf '%s' {{ v }} > file{{ "1" }}; { cat file1; printf '\0'; }
got=$(printf '%s' {{ v }}); printf '%s\0' "$got"
f() { printf '%s\0' "$1"; }; f {{ v }}
( f {{ v }} ); f {{ v }} | cat
sh -c 'printf "%s\0" "$1"' sh {{ v }}
cat <<EOF
$X
EOF
printf '%s\0' {{ v }} # it's a comment
printf '%s\0' "$X" {# {{ v }} #}
"#;
    let script = script(source, &json!({ "v": value })).unwrap();
    for shell in shells() {
        let folder = tempfile::tempdir().unwrap();
        let (good, output) = run(shell, &script, folder.path());
        assert!(good, "{shell}\n{script}");
        let here = format!("{value}\n{value}");
        let expected = [
            value, value, value, "case", value, value, "same", value, value, value, value, value, value,
            &here, value,
        ];
        let output = String::from_utf8(output).unwrap();
        assert_eq!(
            output.split_terminator('\0').collect::<Vec<_>>(),
            expected,
            "{shell}"
        );
        assert!(!folder.path().join("x").exists() && !folder.path().join("y").exists());
    }
}

#[test]
fn value_of_any_kind_is_one_argument() {
    let context =
        json!({"n": 1, "f": 1.5, "t": true, "z": null, "l": ["a b", "c"], "m": {"k": "v'"}, "e": ""});
    let source = "printf '%s\\0' {{ n }} {{ f }} {{ t }} {{ z }} {{ l }} {{ m | tojson }} {{ e }} \
                  {{ l | join(', ') }} {{ 'x' if false }}";
    let script = script(source, &context).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (_, output) = run("sh", &script, folder.path());
    let output = String::from_utf8(output).unwrap();
    let words: Vec<_> = output.split_terminator('\0').collect();
    let json = "{\"k\": \"v\\u0027\"}";
    assert_eq!(
        words,
        ["1", "1.5", "True", "None", "['a b', 'c']", json, "", "a b, c", ""]
    );
}

/// Pieces of scripts, among them everything that makes shells hard to parse.
const PIECES: &[&str] = &[
    "echo ",
    ": ",
    " ",
    "\n",
    ";",
    "\"",
    "'",
    "\\",
    "$",
    "`",
    "(",
    ")",
    "((",
    "))",
    "$(",
    "$((",
    "${X",
    "${X:-",
    "}",
    "{ ",
    "#",
    " # ",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "\nE\n",
    "<<<",
    "<",
    ">f",
    ">>f ",
    "&",
    "&&",
    "|",
    "||",
    "case x in ",
    " esac",
    ";;",
    "x) ",
    "$'",
    "$\"",
    "\\\n",
    "X=",
    "if :; then ",
    "fi\n",
    "do ",
    "done\n",
    "for i in ",
    "[[ ",
    " ]]",
    "$X",
    "$1",
    "$#",
    "!",
    "a",
    "eval ",
    "sh -c ",
    "\t",
    "[ ",
    " ]",
    "~",
    "=",
    "function f ",
    "f() ",
    "time ",
    "$[",
    "]",
    "*",
    "-",
];

/// Values that run a command as soon as they are read as more than one word.
const ATTACKS: &[&str] = &[
    "touch pwned",
    "\ntouch pwned\n",
    ";touch pwned;",
    "$(touch pwned)",
    "`touch pwned`",
    "'",
    "\"",
    "\\",
    "\nE\n",
    ")",
    "}",
    "#",
    "'\"",
    "a[$(touch pwned)]",
    "&touch pwned&",
    "|touch pwned",
    "\\'",
    "$",
    "))",
    "]]",
    "{",
    "(",
    " ",
    ";;",
    "esac\n",
    "\r",
    "-c",
];

/// Scripts: mostly well-formed ones, so that many are accepted, with some noise.
fn author() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        6 => Just("{{ v }}".to_owned()),
        4 => prop::sample::select(vec![
            "a", " ", "#", "=", "~", "-", "\\\"", "\\'", "\\\\", "$X", "$#", "$1", "\\\n", "*", "!", "\\$", "\\`",
        ]).prop_map(str::to_owned),
        1 => prop::sample::select(PIECES).prop_map(str::to_owned),
    ];
    let word = leaf.prop_recursive(3, 12, 3, |inner| {
        let parts = vec(inner, 0..4).prop_map(|parts| parts.concat());
        let frame = prop::sample::select(vec![
            ("\"", "\""),
            ("\"", "\""),
            ("'", "'"),
            ("'", "'"),
            ("$(echo ", ")"),
            ("`echo ", "`"),
            ("${X:-", "}"),
            ("$((1 + ", "))"),
            ("$'", "'"),
            ("$\"", "\""),
            ("\"$(echo ", ")\""),
            ("\"${X:-", "}\""),
            ("", ""),
            ("$(case a in a) echo ", ";; esac)"),
            ("$(echo a #b)\n", ")"),
            ("<(", ")"),
            ("{a,", "}"),
        ]);
        (frame, parts).prop_map(|((before, after), parts)| format!("{before}{parts}{after}"))
    });
    let words = vec(word, 1..4).prop_map(|words| words.join(" "));
    let frame = prop::sample::select(vec![
        ("echo ", ""),
        ("echo ", ""),
        ("X=", ""),
        ("Y=a ", ""),
        ("echo a > ", ""),
        ("cat <<E ", "\n$X\nE"),
        ("cat <<'E' ", "\n'\"\nE"),
        ("cat <<E\n", "\nE"),
        ("if [ ", " ]; then :; fi"),
        ("for i in ", "; do :; done"),
        ("case ", " in a) ;; esac"),
        ("case a in ", ") ;; esac"),
        ("echo a # ", ""),
        ("( echo ", " )"),
        ("f() { echo ", "; }"),
        ("echo a | cat ", ""),
        ("[[ a = ", " ]]"),
        ("(( ", " ))"),
        ("sh -c 'echo \"$1\"' sh ", ""),
        ("! echo ", ""),
        ("set -- ", ""),
        ("while ", "; do break; done"),
        ("cat <<-E ", "\n\ta\n\tE"),
        ("export Z=", ""),
        ("test -n ", " && echo a"),
    ]);
    let line = (frame, words).prop_map(|((before, after), words)| format!("{before}{words}{after}"));
    let noise = prop_oneof![3 => Just(""), 1 => prop::sample::select(PIECES)];
    (
        line.clone(),
        noise,
        prop::sample::select(vec!["\n", "; ", " && ", " | ", "\n\n"]),
        line,
    )
        .prop_map(|(first, noise, between, second)| format!("{first}{noise}{between}{second}\n"))
}

proptest! {
    #![proptest_config(cases(16))]

    /// Whatever the author writes, either the template is refused, or no value ever runs.
    #[test]
    fn accepted_script_never_runs_a_value(
        scripts in vec((author(), vec(prop::sample::select(ATTACKS), 1..5)), 12)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let pwned = folder.path().join("pwned");
        for (source, attack) in scripts {
            let value = attack.concat();
            if !source.contains("{{") {
                continue;
            }
            let Ok(script) = script(&source, &json!({ "v": value })) else { continue };
            for shell in shells() {
                run(shell, &script, folder.path());
                prop_assert!(!pwned.exists(), "{shell} ran the value {value:?} in {source:?}:\n{script}");
            }
        }
    }
}
