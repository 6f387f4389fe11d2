use proptest::prelude::*;

use super::*;
use crate::tools::command::quoted;

fn rules(allow: &[&str], deny: &[&str]) -> Rules {
    let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Rules {
        allow: parse(allow),
        deny: parse(deny),
    }
}

fn judge(rules: &Rules, tool: &str, subject: Subject) -> &'static str {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path(), false).unwrap();
    ruling_name(&rules.judge(tool, || subject, &root))
}

fn ruling_name(ruling: &Ruling) -> &'static str {
    match ruling {
        Ruling::Denied(_) => "denied",
        Ruling::Allowed => "allowed",
        Ruling::NoMatch(_) => "silent",
    }
}

fn line(rules: &Rules, line: &str) -> &'static str {
    judge(rules, "run_command", Subject::Command(line.to_owned()))
}

#[test]
fn rule_without_a_target_is_refused() {
    let error = |text: &str| text.parse::<Rule>().unwrap_err();
    assert_eq!(
        error("run_comand(git *)"),
        RuleError::UnknownTool("run_comand".to_owned())
    );
    assert_eq!(error("mcp.shop"), RuleError::ServerTool("mcp.shop".to_owned()));
    assert_eq!(
        error("mcp.shop.delete(1)"),
        RuleError::ServerPattern("mcp.shop.delete(1)".to_owned())
    );
    for text in ["run_command(git", "run_command()", "run_command(git) x"] {
        assert_eq!(error(text), RuleError::Form(text.to_owned()));
    }
    assert_eq!(
        "Bash(git push *)".parse::<Rule>().unwrap().to_string(),
        "run_command(git push *)"
    );
    assert_eq!(" write_file ".parse::<Rule>().unwrap().to_string(), "write_file");
}

#[test]
fn deny_rule_wins_over_allow() {
    let rules = rules(&["run_command"], &["run_command(git push*)"]);
    assert_eq!(line(&rules, "git status"), "allowed");
    assert_eq!(line(&rules, "git push origin"), "denied");
    assert_eq!(
        judge(&rules, "write_file", Subject::Paths(vec!["a".to_owned()])),
        "silent"
    );
}

#[test]
fn deny_rule_cannot_be_bypassed() {
    let rules = rules(&[], &["run_command(git push *)", "run_command(rm -rf *)"]);
    for bad in [
        "git push",
        "git   push  --force",
        "git 'push' x",
        "g\\it pu\"sh\"",
        "git \\\npush",
        "cd x && git push",
        "true;git push",
        "true | git push",
        "true & git push",
        "true\ngit push",
        "(git push)",
        "( cd x; ( git push ) )",
        "{ git push; }",
        "if true; then git push; fi",
        "while git push; do :; done",
        "for f in a b; do git push; done",
        "! git push",
        "echo $(git push)",
        "echo \"a $(git push) b\"",
        "echo `git push`",
        "echo \"`git push`\"",
        "echo ${x:-$(git push)}",
        "cat <(git push)",
        "x=$(git push)",
        "cat <<X\n$(git push)\nX",
        "cat <<'X'\nquiet\nX\ngit push",
        "echo $((1 + $(git push)))",
        "FOO=1 git push",
        ">/dev/null git push",
        "git push >x 2>&1",
        "2>/dev/null git push",
        "/usr/bin/git push",
        "git -C /x push",
        "git -c a.b=c --no-pager push",
        "git --git-dir=x push",
        "git-push",
        "/usr/lib/git-core/git-push x",
        "git p",
        "git -c alias.p=push p",
        "git config alias.p push; git p",
        "git $VERB",
        "$GIT push",
        "$X",
        "git pus?",
        "git pu[s]h",
        "git {push,pull}",
        "git ~/x",
        "sudo git push",
        "sudo -u me git push",
        "env -i A=b git push",
        "nohup timeout 5 git push",
        "echo push | xargs git",
        "xargs -n 1 git push",
        "find . -exec git push ;",
        "sh -c 'git push'",
        "bash -lc 'cd x; git push'",
        "sudo bash -c \"git push\"",
        "sh -c \"sh -c 'git push'\"",
        "sh -c \"$X\"",
        "echo git push | sh",
        "sh <<X\nanything\nX",
        "bash -s < x",
        "bash <x",
        "eval git push",
        "eval 'git pu''sh'",
        "eval $X",
        "trap 'git push' EXIT",
        "su -c 'git push'",
        "git rebase --exec 'git push' main",
        "git submodule foreach 'git push'",
        "alias g='git push'; g",
        "f() { git push; }; f",
        "exec git push",
        "command git push",
        "echo 'unbalanced; git push",
        "echo \"${x:-'}\" ; git push ; echo '",
        "$'git' push",
        "rm -rf /",
        "echo x && rm  -rf .",
    ] {
        assert_eq!(line(&rules, bad), "denied", "{bad}");
    }
    for good in [
        "git status",
        "git pull",
        "echo git push",
        "grep 'git push' README.md",
        "git commit -m 'git push later'",
        "git log --oneline | head -n 3",
        "for f in *.rs; do wc -l $f; done",
        "cargo test 2>&1 | tail -n 20 > out.txt",
        "cat > a.txt <<'X'\ngit push\nX",
        "cat <<X\ncosts 5 $ or so\nX",
        "ls ~/x $HOME; echo ${HOME}/b",
        "rm -r x",
        "test -f x && [ -d y ] || echo \"it's `date`\"",
        "python3 - <<'X'\nprint(1)\nX",
        "sh build.sh",
    ] {
        assert_eq!(line(&rules, good), "silent", "{good}");
    }
}

#[test]
fn allow_rule_must_cover_the_whole_line() {
    let rules = rules(
        &[
            "run_command(git status *)",
            "run_command(ls)",
            "run_command(grep *)",
        ],
        &[],
    );
    for good in [
        "git status",
        "git status -s",
        "ls",
        "ls && git status | grep 'a b'",
        "git status 2>&1 >/dev/null",
        "ls; ls\nls",
    ] {
        assert_eq!(line(&rules, good), "allowed", "{good}");
    }
    for other in [
        "git statusx",
        "git push",
        "ls -l",
        "ls && rm x",
        "ls; rm x",
        "ls | sh",
        "ls & rm x",
        "ls\nrm x",
        "git status $(rm x)",
        "git status `rm x`",
        "git status $X",
        "git status *",
        "grep x ~/.ssh/id",
        "grep x >out",
        "git status >> x",
        "A=b ls",
        "PATH=. ls",
        "A=b",
        "sudo ls",
        "env ls",
        "/tmp/ls",
        "./git status",
        "sh -c ls",
        "grep x <(rm y)",
        "case x in x) ls;; esac",
        "ls 'unbalanced",
        "'git status'",
        "git 'status -s'x",
        "",
        "# only words",
    ] {
        assert_eq!(line(&rules, other), "silent", "{other}");
    }
}

#[test]
fn paths_are_matched_by_their_real_names() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(top.join("work/secret")).unwrap();
    std::fs::create_dir_all(top.join("work/docs/deep")).unwrap();
    std::os::unix::fs::symlink("secret", top.join("work/open")).unwrap();
    let root = Root::open(&top.join("work"), false).unwrap();
    let ask = |rules: &Rules, path: &str| {
        ruling_name(&rules.judge("write_file", || Subject::Paths(vec![path.to_owned()]), &root))
    };

    let deny = rules(&[], &["write_file(secret/**)", "write_file(*.lock)"]);
    let absolute = top.join("work/secret/x");
    for bad in [
        "secret/x",
        "./secret/x",
        "docs/../secret/x",
        "open/x",
        "secret/new/y",
        absolute.to_str().unwrap(),
        "Cargo.lock",
    ] {
        assert_eq!(ask(&deny, bad), "denied", "{bad}");
    }
    for good in ["docs/x", "docs/Cargo.lock", "secrets"] {
        assert_eq!(ask(&deny, good), "silent", "{good}");
    }

    let allow = rules(&["write_file(docs/**)"], &[]);
    assert_eq!(ask(&allow, "docs/deep/x"), "allowed");
    for other in ["x", "docs/../secret/x", "open/x", "docs/../../x"] {
        assert_eq!(ask(&allow, other), "silent", "{other}");
    }
    let both = Subject::Paths(vec!["docs/x".to_owned(), "x".to_owned()]);
    assert_eq!(ruling_name(&allow.judge("write_file", || both, &root)), "silent");
}

#[test]
fn unknown_subject_matches_every_deny_and_no_allow() {
    assert_eq!(
        judge(&rules(&["write_file(**)"], &[]), "write_file", Subject::Unknown),
        "silent"
    );
    assert_eq!(
        judge(&rules(&[], &["write_file(x)"]), "write_file", Subject::Unknown),
        "denied"
    );
    assert_eq!(
        judge(&rules(&["write_file"], &[]), "write_file", Subject::Unknown),
        "allowed"
    );
}

const SEPARATORS: [&str; 8] = ["; ", " && ", " || ", " | ", "\n", " & ", " |& ", ";"];

fn in_a_shell(command: &str, wrap: u8) -> String {
    match wrap % 8 {
        0 => command.to_owned(),
        1 => format!("( {command} )"),
        2 => format!("echo $({command})"),
        3 => format!("echo \"`{command}`\""),
        4 => format!("sh -c {}", quoted(command)),
        5 => format!("sudo {command}"),
        6 => format!("A=b {command} 2>/dev/null"),
        _ => format!("if true; then {command}; fi"),
    }
}

proptest! {
    #[test]
    fn shell_reader_accepts_any_line(text in "\\PC{0,80}", odd in "[ a-z'\"`$(){}<>|&;\\\\\n#*?\\[\\]=~!-]{0,60}") {
        for line in [&text, &odd] {
            let read = shell::read(line);
            prop_assert!(read.commands.len() <= 2 * line.len() + 1);
        }
    }

    #[test]
    fn quoted_args_round_trip(words in proptest::collection::vec("\\PC{1,12}", 1..5)) {
        let text = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let read = shell::read(&text);
        prop_assert!(!read.unreadable);
        let simple = &read.commands[0];
        let mut back: Vec<String> = simple.words.iter().map(|word| known(word).unwrap()).collect();
        if simple.does_more || back.len() < words.len() {
            // `a=b` at the start is an assignment, and a keyword is not among the words.
            back = words[words.len() - back.len()..].to_vec();
        }
        prop_assert_eq!(&back[..], &words[words.len() - back.len()..]);
    }

    #[test]
    fn denied_command_is_found_anywhere_in_a_line(
        wraps in proptest::collection::vec(0_u8..8, 0..4),
        before in 0_usize..8,
        after in 0_usize..8,
    ) {
        let mut command = "git push origin".to_owned();
        for wrap in wraps {
            command = in_a_shell(&command, wrap);
        }
        let whole = format!("echo a{}{command}{}ls -l", SEPARATORS[before], SEPARATORS[after]);
        prop_assert_eq!(line(&rules(&[], &["run_command(git push*)"]), &whole), "denied");
    }

    #[test]
    fn allowed_line_contains_only_allowed_commands(
        parts in proptest::collection::vec((any::<bool>(), 0_usize..8), 1..6),
    ) {
        let mut whole = String::new();
        for (allowed, separator) in &parts {
            whole.push_str(if *allowed { "git status -s" } else { "make all" });
            whole.push_str(SEPARATORS[*separator]);
        }
        whole.push_str("git status");
        let all = parts.iter().all(|(allowed, _)| *allowed);
        let expected = if all { "allowed" } else { "silent" };
        prop_assert_eq!(line(&rules(&["run_command(git status*)"], &[]), &whole), expected);
    }

    #[test]
    fn pattern_matching_equals_the_reference(pattern in "[ab*?]{0,6}", text in "[ab]{0,6}") {
        fn plain(p: &[u8], t: &[u8]) -> bool {
            match (p.first(), t.first()) {
                (None, None) => true,
                (Some(b'*'), _) => plain(&p[1..], t) || (!t.is_empty() && plain(p, &t[1..])),
                (Some(b'?'), Some(_)) => plain(&p[1..], &t[1..]),
                (Some(a), Some(b)) if a == b => plain(&p[1..], &t[1..]),
                _ => false,
            }
        }
        prop_assert_eq!(fits(&pattern, &glyphs(&text)), plain(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn possible_match_is_found(pattern in "[ab*]{0,5}", text in proptest::collection::vec("[ab]{0,2}", 1..4), filled in proptest::collection::vec("[ab]{0,3}", 3)) {
        // If some values of the unknown parts match, the text with its unknown parts might match.
        let (mut unknown, mut known_text) = (Vec::new(), String::new());
        for (index, piece) in text.iter().enumerate() {
            if index > 0 {
                unknown.push(Glyph::Any);
                known_text.push_str(&filled[index - 1]);
            }
            unknown.extend(glyphs(piece));
            known_text.push_str(piece);
        }
        if fits(&pattern, &glyphs(&known_text)) {
            prop_assert!(fits(&pattern, &unknown));
        }
    }
}
