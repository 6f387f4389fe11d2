//! Places at which a value is refused, with line and hint.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{AFTER_CREATE_NAMES, Part, Place, TemplateError, check_prompt, check_script, prompt, script};

fn context() -> Value {
    json!({
        "issue": {"id": "v", "title": "t", "workdir": "/r/issues/v"}, "workflow_dir": "/w", "env": {"HOME": "/h"},
        "attempt": {"number": 1},
    })
}

fn place(source: &str) -> Place {
    match script(source, &context()) {
        Err(TemplateError::Refused { place, .. }) => place,
        other => panic!("not refused: {source}: {other:?}"),
    }
}

#[test]
fn unclear_quoting_is_refused() {
    for (source, expected) in [
        ("cat <<EOF\n{{ issue.id }}\nEOF\n", Place::Heredoc),
        ("cat <<'EOF'\n{{ issue.id }}\nEOF\n", Place::Heredoc),
        ("cat <<-E; cat <<F\na\n\tE\n{{ issue.id }}\nF\n", Place::Heredoc),
        ("cat <<{{ issue.id }}\n", Place::Heredoc),
        ("cat <<E\\{{ issue.id }}", Place::Heredoc),
        ("echo a # {{ issue.id }}", Place::Comment),
        ("# {{ issue.id }}\n", Place::Comment),
        ("echo;# {{ issue.id }}\n", Place::Comment),
        ("echo \"$(cat {{ issue.id }})\"", Place::NestedSubstitution),
        ("echo \"$(cat '{{ issue.id }}')\"", Place::NestedSubstitution),
        ("echo $(cat $(cat {{ issue.id }}))", Place::NestedSubstitution),
        ("echo `cat {{ issue.id }}`", Place::Backticks),
        ("echo \"`cat {{ issue.id }}`\"", Place::Backticks),
        ("echo ${X:-{{ issue.id }}}", Place::Parameter),
        ("echo \"${X:-'{{ issue.id }}'}\"", Place::Parameter),
        ("echo $(({{ issue.id }} + 1))", Place::Arithmetic),
        ("[[ {{ issue.id }} -eq 1 ]]", Place::Condition),
        ("[[ a && b =~ {{ issue.id }} ]]", Place::Condition),
        ("echo $'{{ issue.id }}'", Place::AnsiQuotes),
        ("echo ${{ issue.id }}", Place::AfterDollar),
        ("echo \"${{ issue.id }}\"", Place::AfterDollar),
        ("echo \\{{ issue.id }}", Place::AfterBackslash),
        ("echo \"\\{{ issue.id }}\"", Place::AfterBackslash),
    ] {
        assert_eq!(place(source), expected, "{source}");
    }
    for source in [
        "echo $'it\\'s' {{ issue.id }}",
        "echo \"${X:-\"a\"}\" {{ issue.id }}",
        "echo `echo 'a'` {{ issue.id }}",
        "(( i++ )); echo {{ issue.id }}",
        "echo $[1] {{ issue.id }}",
        "echo \"$(case a in a) ;; esac)\" {{ issue.id }}",
        "alias e=echo\necho {{ issue.id }}",
        "echo \"{{ issue.id }}",
        "echo '{{ issue.id }}",
        "echo <\\\n<E\n{{ issue.id }}\nE\n",
        "echo ${ echo a; } {{ issue.id }}",
        "cat <<E $(echo a) {{ issue.id }}\nE\n",
    ] {
        assert!(
            matches!(place(source), Place::Unclear(_)),
            "{source}: {:?}",
            place(source)
        );
    }
}

#[test]
fn value_as_a_command_name_is_refused() {
    for source in [
        "{{ issue.id }}",
        "{{ issue.id }} a",
        "'{{ issue.id }}' a",
        "./{{ issue.id }}.sh",
        "X=1 {{ issue.id }}",
        "true && {{ issue.id }}",
        "if {{ issue.id }}; then :; fi",
        "x=$({{ issue.id }})",
        "$(echo {{ issue.id }})",
        "Y=a $(cat $F {{ issue.id }}) b",
        "2>f {{ issue.id }}",
        "time -p {{ issue.id }}",
        "env -u X {{ issue.id }}",
        "for i do {{ issue.id }}; done",
        "function f { {{ issue.id }}; }",
        "f() { {{ issue.id }}; }",
        "find . -exec {{ issue.id }} \\;",
        "> f {{ issue.id }}",
        "! {{ issue.id }}",
        "exec {{ issue.id }}",
        "sudo -n env A=b {{ issue.id }}",
        "timeout 5 {{ issue.id }}",
        "case a in a) {{ issue.id }} ;; esac",
        "{% set workflow_dir = issue.id %}{{ workflow_dir }}/x",
        "a[{{ issue.id }}]=1",
        "a=({{ issue.id }})",
    ] {
        assert_eq!(place(source), Place::CommandName, "{source}");
    }
}

#[test]
fn value_read_as_code_is_refused() {
    for source in [
        "eval {{ issue.id }}",
        "eval \"echo {{ issue.id }}\"",
        "sh -c {{ issue.id }}",
        "bash -ec \"echo {{ issue.id }}\"",
        "/bin/sh -c -e 'echo {{ issue.id }}'",
        "sudo bash -c 'echo {{ issue.id }}'",
        "find . -exec sh -c 'echo {{ issue.id }}' \\;",
        "python3 -c 'print(\"{{ issue.id }}\")'",
        "python3.12 -c {{ issue.id }}",
        "node --eval={{ issue.id }}",
        "perl -ne 's/{{ issue.id }}//'",
        "sed 's/a/{{ issue.id }}/' f",
        "sed -n -e 's/a/{{ issue.id }}/p' f",
        "awk '/{{ issue.id }}/' f",
        "trap 'echo {{ issue.id }}' EXIT",
        "ssh host echo {{ issue.id }}",
        ". {{ issue.id }}",
        "xargs sh -c {{ issue.id }}",
        "eval $(echo {{ issue.id }})",
        "sh {{ issue.id }}",
        "python3 -u scripts/{{ issue.id }}.py",
        "git -c {{ issue.id }} status",
        "set {{ issue.id }}",
    ] {
        assert!(
            matches!(place(source), Place::Code(_)),
            "{source}: {:?}",
            place(source)
        );
    }
    for source in [
        "export {{ issue.id }}",
        "export {{ issue.id }}=1",
        "read {{ issue.id }}",
        "declare -i n={{ issue.id }}",
        "[ -v {{ issue.id }} ]",
    ] {
        assert!(
            matches!(place(source), Place::VariableName(_)),
            "{source}: {:?}",
            place(source)
        );
    }
}

#[test]
fn common_scripts_are_accepted() {
    for source in [
        "git clone {{ env.HOME }}/repo . && git checkout -b vik/{{ issue.id }}",
        "{{ workflow_dir }}/setup.sh {{ issue.id }}",
        "\"{{ workflow_dir }}/bin/$NAME\" --title \"{{ issue.title }}\"",
        "exec {{ env.HOME }}/bin/x {{ issue.id }}",
        "branch=$(git rev-parse --abbrev-ref HEAD)\ngit push origin \"$branch\" -o title={{ issue.title }}",
        "body=$(gh issue view {{ issue.id }} --json body -q .body)",
        "sh -c 'echo \"$1\"' _ {{ issue.title }}",
        "sed 's/a/b/' {{ issue.id }}",
        "awk -v id={{ issue.id }} '{ print id }' f",
        "printf '%s\\n' {{ issue.title }} | tee -a log",
        "if [ {{ attempt.number }} -gt 1 ]; then echo again; fi",
        "if test -d .git\nthen\n  echo {{ issue.id }}\nfi",
        "echo \"${X:-default} {% raw %}${#X}{% endraw %} ${X%%.*}\" {{ issue.id }}",
        "n=$((1 + 2)); echo \"$n\" {{ issue.id }}",
        "cat <<'EOF' > f\nit's \"quoted\" $(here)\nEOF\necho {{ issue.id }}",
        "cd {{ issue.workdir }} || exit 1",
        "vik issue move {{ issue.id }} review >/dev/null 2>&1",
        "echo 'it'\\''s' {{ issue.id }}",
        "git commit -m \"{{ issue.title }}\n\nFor {{ issue.id }}\"",
        "while read -r line; do echo \"$line\" {{ issue.id }}; done < f",
        "export ISSUE={{ issue.id }} TITLE=\"{{ issue.title }}\"",
        "{% for n in [1, 2] %}echo {{ n }}{{ issue.id }}\n{% endfor %}",
        "case {{ issue.id }} in\n  bug-*) echo bug ;;\n  *) echo {{ issue.title }} ;;\nesac\necho done",
        "f() {\n  # it's here\n  echo \"$@\"\n}\nf {{ issue.id }}",
        "sh scripts/x.sh {{ issue.id }}; python3 x.py {{ issue.id }}; set -- {{ issue.id }}",
        "echo a |\\\n  tee -a {{ issue.id }} && \\\n  echo {{ issue.id }}",
        "for f in $(ls {{ issue.id }}); do echo \"$f\"; done",
        "exec >> log 2>&1\necho {{ issue.id }}",
        "test -f x || { echo {{ issue.id }}; exit 1; }",
    ] {
        if let Err(error) = script(source, &context()) {
            panic!("refused: {source}: {error}");
        }
    }
}

#[test]
fn captured_blocks_and_other_templates_are_refused() {
    for (source, tag) in [
        ("{% set x %}{{ issue.id }}{% endset %}echo {{ x }}", "set"),
        ("{% filter upper %}echo {{ issue.id }}{% endfilter %}", "filter"),
        (
            "{% macro m() %}echo {{ issue.id }}{% endmacro %}{{ m() }}",
            "macro",
        ),
        (
            "{% for x in [[1]] recursive %}{{ x }}{% endfor %}",
            "for … recursive",
        ),
    ] {
        assert_eq!(place(source), Place::Captured(tag));
        // The text of a prompt needs no quoting.
        assert!(prompt(source, &context()).is_ok(), "{source}");
        let within = format!("`exec({source})`");
        assert!(
            matches!(prompt(&within, &context()), Err(TemplateError::Refused { .. })),
            "{within}"
        );
    }
    for source in [
        "{% include 'x' %}",
        "{% extends 'x' %}",
        "{% import 'x' as y %}",
        "{% block a %}{% endblock %}",
    ] {
        assert_eq!(place(source), Place::OtherTemplates);
        assert!(matches!(
            prompt(source, &json!({})),
            Err(TemplateError::Refused { .. })
        ));
    }
}

#[test]
fn nul_is_refused_in_shell_text_only() {
    let context = json!({"v": "a\0b"});
    assert!(matches!(
        script("\necho {{ v }}", &context),
        Err(TemplateError::Nul { line: 2, .. })
    ));
    assert_eq!(
        prompt("{{ v }}", &context).unwrap().parts,
        [Part::Text("a\0b".to_owned())]
    );
}

fn report(errors: &[TemplateError]) -> String {
    errors.iter().fold(String::new(), |mut text, error| {
        let _ = writeln!(text, "{error}");
        if let Some(hint) = error.hint() {
            let _ = writeln!(text, "  hint: {hint}");
        }
        text
    })
}

#[test]
fn checks_report_without_values() {
    let hook = "set -e\necho {{ isue.id }}\ncat <<E\n{{ issue.title }}\nE\n\
                {% if attempt.number > 1 %}{% else %}eval \"{{ issue.id }}\"{% endif %}";
    insta::assert_snapshot!(report(&check_script(hook, AFTER_CREATE_NAMES)), @r#"
    line 2: `isue` is not defined
      hint: did you mean `issue`?
    line 4: `{{ issue.title }}` is in a here-document
      hint: assign it to a variable on a separate line, `value={{ … }}`, and use "$value" here
    line 6: `attempt` is not defined
      hint: known here: issue, workflow_path, workflow_dir, workspace_root, env
    "#);
    insta::assert_snapshot!(report(&check_script("echo \"{{ issue.id }\"", AFTER_CREATE_NAMES)), @"line 1: unexpected `}`, expected end of variable block");
    let prompt = "Fix it.\n!`exec(sh -c \"{{ issue.id }}\")`";
    insta::assert_snapshot!(report(&check_prompt(prompt, AFTER_CREATE_NAMES)), @r#"
    line 2: `{{ issue.id }}` would be read as code by `sh`
      hint: pass it as an argument: sh -c '… "$1" …' sh {{ … }}
    "#);
    insta::assert_snapshot!(report(&check_prompt("Fix it.\n\n!`exec(gh issue view 1`", AFTER_CREATE_NAMES)), @r#"
    line 3: the prompt command `exec(` has no closing `` )` `` in the block in which it starts
      hint: end the command with `` )` ``; to show the text itself, write {{ "`exec(…)`" }}
    "#);
    let good = "{% for l in issue.labels %}{{ loop.index }}{{ l }}{% endfor %}!`exec(echo {{ issue.id }})`";
    assert_eq!(check_prompt(good, AFTER_CREATE_NAMES), []);
}

#[test]
fn refusal_messages_have_a_hint() {
    let sources = [
        "echo <<E\n{{ issue.id }}",
        "echo # {{ issue.id }}",
        "echo \"$(echo {{ issue.id }})\"",
        "echo `echo {{ issue.id }}`",
        "echo ${X:-{{ issue.id }}}",
        "echo $(({{ issue.id }}))",
        "[[ {{ issue.id }} ]]",
        "echo $'{{ issue.id }}'",
        "echo ${{ issue.id }}",
        "{{ issue.id }}",
        "bash -c {{ issue.id }}",
        "eval {{ issue.id }}",
        "read {{ issue.id }}",
        "{% filter upper %}{% endfilter %}",
        "{% include 'a' %}",
        "echo $'\\'' {{ issue.id }}",
    ];
    let text = sources.map(|source| {
        format!(
            "{source:?}\n{}",
            report(&check_script(source, AFTER_CREATE_NAMES))
        )
    });
    insta::assert_snapshot!(text.concat(), @r##"
    "echo <<E\n{{ issue.id }}"
    line 2: `{{ issue.id }}` is in a here-document
      hint: assign it to a variable on a separate line, `value={{ … }}`, and use "$value" here
    "echo # {{ issue.id }}"
    line 1: `{{ issue.id }}` is in a shell comment
      hint: use {# … #} for a template comment, or remove the value
    "echo \"$(echo {{ issue.id }})\""
    line 1: `{{ issue.id }}` is in a nested command substitution
      hint: assign it to a variable on a separate line, `value={{ … }}`, and use "$value" here
    "echo `echo {{ issue.id }}`"
    line 1: `{{ issue.id }}` is in backticks
      hint: use $(…) instead of backticks, or assign it to a variable on a separate line, `value={{ … }}`, and use "$value" here
    "echo ${X:-{{ issue.id }}}"
    line 1: `{{ issue.id }}` is in `${…}`
      hint: assign it to a variable on a separate line, `value={{ … }}`, and use "$value" here
    "echo $(({{ issue.id }}))"
    line 1: `{{ issue.id }}` is in shell arithmetic
      hint: shells evaluate text in arithmetic as code; compare with [ … -eq … ] instead
    "[[ {{ issue.id }} ]]"
    line 1: `{{ issue.id }}` is in `[[ … ]]`
      hint: assign it to a variable on a separate line, `value={{ … }}`, and use "$value" here
    "echo $'{{ issue.id }}'"
    line 1: `{{ issue.id }}` is in `$'…'`
      hint: assign it to a variable on a separate line, `value={{ … }}`, and use "$value" here
    "echo ${{ issue.id }}"
    line 1: `{{ issue.id }}` is directly after a `$`
      hint: put the character in single quotes, or remove it
    "{{ issue.id }}"
    line 1: `{{ issue.id }}` would name the command to run
      hint: select the command with {% if %}, or start it with a fixed path and pass the value as an argument
    "bash -c {{ issue.id }}"
    line 1: `{{ issue.id }}` would be read as code by `bash`
      hint: pass it as an argument: bash -c '… "$1" …' bash {{ … }}
    "eval {{ issue.id }}"
    line 1: `{{ issue.id }}` would be read as code by `eval`
      hint: pass it as data, in an argument or in the environment (hooks get VIK_ISSUE_ID, VIK_ISSUE_TITLE)
    "read {{ issue.id }}"
    line 1: `{{ issue.id }}` would name a variable for `read`
      hint: use a fixed name: export NAME={{ … }}
    "{% filter upper %}{% endfilter %}"
    line 1: shell text is in `{% filter %}`, so its position in the shell script is unknown
      hint: use `{% set name = … %}` for a value, and put the text where it is needed
    "{% include 'a' %}"
    line 1: `{% include %}` needs other templates, which are not supported
      hint: put the text into this file
    "echo $'\\'' {{ issue.id }}"
    line 1: `{{ issue.id }}` follows `$'…'` with a backslash or a line break, so its position in the shell script is unknown
      hint: use the value before that position, or move that part into a script file
    "##);
}
