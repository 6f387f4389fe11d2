//! The command line and the environment of each runtime, with each permission.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use vik_agents::{Extensions, InputMode, Launch, LaunchContext, LaunchError, driver};
use vik_core::limits::Limit;
use vik_core::money::MicroUsd;
use vik_core::scope::Scope;
use vik_core::workflow::{AgentProfile, ArgValue, Permission, Price, Runtime, SandboxFiles};

const SESSION: uuid::Uuid = uuid::Uuid::from_u128(0x0123_4567_89ab_7def_8123_4567_89ab_cdef);

fn profile(runtime: Runtime) -> AgentProfile {
    AgentProfile {
        model: Some("some-model".to_owned()),
        command: if runtime == Runtime::Command {
            vec!["my-agent".into(), "--go".into()]
        } else {
            Vec::new()
        },
        ..AgentProfile::new(runtime)
    }
}

fn launch(cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    driver(cx.profile.runtime).launch(cx)
}

static ENVIRONMENT: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    [
        ("PATH", "/bin"),
        ("HOME", "/home/u"),
        ("OPENAI_API_KEY", "o"),
        ("ANTHROPIC_API_KEY", "a"),
        ("GITHUB_TOKEN", "never"),
        ("VIK_HOME", "never"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
});

const RUNTIMES: [Runtime; 4] = [
    Runtime::Codex,
    Runtime::ClaudeCode,
    Runtime::Vex,
    Runtime::Command,
];

fn context(profile: &AgentProfile) -> LaunchContext<'_> {
    LaunchContext {
        profile,
        workdir: Path::new("/ws/issue 1"),
        vik: Path::new("/opt/vik"),
        private_home: None,
        session_id: SESSION,
        resume: None,
        budget: Limit::default(),
        in_sandbox: false,
        input: InputMode::Prompt,
        scope: None,
        questions: None,
        extensions: None,
        is_root: false,
        environment: &ENVIRONMENT,
    }
}

fn show(cx: &LaunchContext<'_>) -> String {
    match launch(cx) {
        Ok(launch) => {
            let mut text = String::new();
            for arg in &launch.argv {
                writeln!(text, "    {arg}").unwrap();
            }
            for (name, value) in &launch.env {
                writeln!(text, "    env {name}={value}").unwrap();
            }
            for file in &launch.files {
                writeln!(text, "    file {}\n{}", file.path.display(), file.text).unwrap();
            }
            text
        }
        Err(error) => format!("    refused: {error}\n"),
    }
}

#[test]
fn launch_of_each_runtime_with_each_permission() {
    let mut all = String::new();
    for runtime in RUNTIMES {
        for permission in [Permission::ReadOnly, Permission::WorkspaceWrite, Permission::Full] {
            let mut profile = profile(runtime);
            profile.permission = permission;
            writeln!(all, "{} {permission:?}", runtime.as_str()).unwrap();
            all.push_str(&show(&context(&profile)));
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn launch_of_each_interactive_runtime() {
    let mut all = String::new();
    let mut note = |profile: &AgentProfile, in_sandbox| {
        let cx = LaunchContext {
            input: InputMode::Approvals,
            in_sandbox,
            resume: Some("01a1ffcd-34e9-78d1-bc6d-b647a491f028"),
            ..context(profile)
        };
        writeln!(all, "{} in sandbox: {in_sandbox}", profile.runtime.as_str()).unwrap();
        all.push_str(&show(&cx));
    };
    for runtime in [Runtime::Codex, Runtime::ClaudeCode, Runtime::Vex] {
        note(&profile(runtime), true);
        note(&profile(runtime), false);
    }
    // Flags that prevent asking are refused, so that no call runs without approval.
    let with = |runtime, flag: &str, value: ArgValue| AgentProfile {
        args: vec![(flag.to_owned(), value)],
        ..profile(runtime)
    };
    note(&profile(Runtime::Command), true);
    note(&with(Runtime::ClaudeCode, "bare", ArgValue::Switch(true)), true);
    note(
        &with(Runtime::Codex, "output-schema", ArgValue::Text("x".into())),
        true,
    );
    note(&with(Runtime::Vex, "ask", ArgValue::Switch(true)), true);
    insta::assert_snapshot!(all);
    let enforces_scope_interactively =
        |profile: &AgentProfile| driver(profile.runtime).enforces_scope_interactively(profile);
    assert!(enforces_scope_interactively(&profile(Runtime::Codex)));
    let plain = with(Runtime::Codex, "c", ArgValue::Text("a=1".into()));
    assert!(enforces_scope_interactively(&plain));
    let other = with(Runtime::Codex, "s", ArgValue::Text("read-only".into()));
    assert!(!enforces_scope_interactively(&other));
    let bare = with(Runtime::ClaudeCode, "--bare", ArgValue::Switch(true));
    assert!(!enforces_scope_interactively(&bare));
}

#[test]
fn vex_gets_its_scope_outside_of_the_arguments() {
    let scope = Scope::new(["src/**", "!--flag"]).unwrap();
    let cx = |profile| LaunchContext {
        scope: Some(&scope),
        ..context(profile)
    };
    let vex = profile(Runtime::Vex);
    let launched = launch(&cx(&vex)).unwrap();
    assert_eq!(launched.env["VIK_SCOPE"], r#"[["src/**","!--flag"]]"#);
    assert!(
        launched
            .argv
            .windows(2)
            .any(|pair| pair == ["--scope-env", "VIK_SCOPE"])
    );
    assert!(!launched.argv.iter().any(|arg| arg.contains("src/**")));
    // Without a scope nothing is set: every path may be changed.
    let launched = launch(&context(&vex)).unwrap();
    assert!(!launched.env.contains_key("VIK_SCOPE"));
    assert!(!launched.argv.iter().any(|arg| arg.starts_with("--scope")));
    let mut own = profile(Runtime::Vex);
    own.args
        .push(("scope-env".to_owned(), ArgValue::Text("MINE".to_owned())));
    assert!(launch(&cx(&own)).is_err(), "a profile cannot take it away");
}

#[test]
fn vex_gets_a_token_budget_for_every_model() {
    let limits = |own: Option<&str>, left: u64| {
        let mut profile = profile(Runtime::Vex);
        profile.provider = Some("local".into());
        let own = own.map(|own| ("max-tokens".to_owned(), ArgValue::Text(own.into())));
        profile.args = own.into_iter().collect();
        let mut cx = context(&profile);
        cx.budget.tokens = Some(left);
        let argv = launch(&cx).unwrap().argv;
        let shown = |pair: &[String]| (pair[0] == "--max-tokens").then(|| pair[1].clone());
        argv.windows(2).filter_map(shown).collect::<Vec<_>>()
    };
    assert_eq!(limits(None, 5000), ["5000"]);
    assert_eq!(limits(Some("4000"), 5000), ["4000"]);
    assert_eq!(limits(Some("6000"), 5000), ["6000", "5000"]);
    assert!(limits(None, 0).is_empty(), "that is for the daemon to say");
}

#[test]
fn vex_gets_a_cost_budget_when_the_price_is_known() {
    let limits = |change: &dyn Fn(&mut AgentProfile)| {
        let mut profile = profile(Runtime::Vex);
        change(&mut profile);
        let mut cx = context(&profile);
        cx.budget.usd = Some(MicroUsd::from_usd(1.5));
        let argv = launch(&cx).unwrap().argv;
        let shown =
            |pair: &[String]| matches!(pair[0].as_str(), "--max-usd" | "--config").then(|| pair.join(" "));
        argv.windows(2).filter_map(shown).collect::<Vec<_>>()
    };
    let limit = "--max-usd 1.500000";
    assert_eq!(limits(&|_| ()), [limit]);
    assert!(limits(&|profile| profile.base_url = Some("http://127.0.0.1:8080/v1".into())).is_empty());
    assert!(limits(&|profile| profile.provider = Some("ollama".into())).is_empty());
    let own = |usd: &'static str| {
        move |profile: &mut AgentProfile| {
            let value = ArgValue::Text(usd.into());
            profile.args = [("max-usd".to_owned(), value)].into_iter().collect();
        }
    };
    assert_eq!(limits(&own("1")), ["--max-usd 1"]);
    assert_eq!(limits(&own("2")), ["--max-usd 2", limit]);
    let price = Price {
        input: 1.0,
        cached_input: 0.1,
        cache_write: 0.0,
        output: 2.5,
    };
    let priced = limits(&|profile| {
        profile.model = Some("a \"b\"".into());
        profile.base_url = Some("http://127.0.0.1:8080/v1".into());
        profile.price = Some(price);
    });
    assert_eq!(priced[0], r#"--config models."a \"b\"".input=1.0"#);
    assert_eq!((priced.len(), priced[4].as_str()), (5, limit));
}

#[test]
fn launch_with_every_profile_option() {
    let mut all = String::new();
    for runtime in RUNTIMES {
        let mut profile = profile(runtime);
        profile.args = vec![
            ("c".to_owned(), ArgValue::List(vec!["a=1".into(), "b=2".into()])),
            ("search".to_owned(), ArgValue::Switch(true)),
            ("off".to_owned(), ArgValue::Switch(false)),
            ("effort".to_owned(), ArgValue::Text("high".into())),
        ];
        if runtime == Runtime::ClaudeCode {
            // `-c` means `--continue` there.
            profile.args[0].0 = "allowedTools".to_owned();
        }
        profile.base_url = Some("http://127.0.0.1:8099/v1".to_owned());
        profile.provider = Some("chat-compat".to_owned());
        profile.stream = true;
        profile.env = BTreeMap::from([("EXTRA".to_owned(), "1".to_owned())]);
        profile.env_pass = vec!["GITHUB_TOKEN".to_owned()];
        let mut cx = context(&profile);
        cx.is_root = true;
        cx.private_home = Some(Path::new("/private"));
        if runtime != Runtime::Command {
            cx.resume = Some("01a1ffcc-0000-7000-8000-000000000000");
        }
        writeln!(all, "{}", runtime.as_str()).unwrap();
        all.push_str(&show(&cx));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn permission_flag_overrides_the_profile() {
    for (runtime, flag, ours) in [
        (Runtime::Codex, "dangerously-bypass-approvals-and-sandbox", "-s"),
        (
            Runtime::ClaudeCode,
            "dangerously-skip-permissions",
            "--permission-mode",
        ),
    ] {
        let mut profile = profile(runtime);
        profile.args = vec![(flag.to_owned(), ArgValue::Switch(true))];
        let argv = launch(&context(&profile)).unwrap().argv;
        assert!(
            argv.contains(&format!("--{flag}")) && !argv.iter().any(|arg| arg == ours),
            "{argv:?}"
        );
    }
}

#[test]
fn launch_refuses_flags_that_break_the_protocol() {
    for (runtime, flag, value) in [
        (Runtime::Codex, "m", "other"),
        (Runtime::Codex, "cd", "/elsewhere"),
        (Runtime::ClaudeCode, "output-format", "text"),
        (Runtime::ClaudeCode, "model", "other"),
        (Runtime::ClaudeCode, "resume", "x"),
        (Runtime::Vex, "model", "other"),
    ] {
        let mut profile = profile(runtime);
        profile.args = vec![(flag.to_owned(), ArgValue::Text(value.to_owned()))];
        let error = launch(&context(&profile)).unwrap_err();
        assert!(
            matches!(error, LaunchError::ReservedFlag { .. }),
            "{flag}: {error}"
        );
    }
    let mut same = profile(Runtime::ClaudeCode);
    same.args = vec![
        (
            "output-format".to_owned(),
            ArgValue::Text("stream-json".to_owned()),
        ),
        ("verbose".to_owned(), ArgValue::Switch(true)),
    ];
    let argv = launch(&context(&same)).unwrap().argv;
    assert_eq!(
        argv.iter()
            .filter(|arg| *arg == "--verbose" || *arg == "--output-format")
            .count(),
        2
    );
}

#[test]
fn launch_refuses_an_invalid_resume_id() {
    for runtime in [Runtime::Codex, Runtime::ClaudeCode] {
        let profile = profile(runtime);
        let mut cx = context(&profile);
        cx.resume = Some("nonsense");
        assert!(matches!(launch(&cx), Err(LaunchError::BadResumeId { .. })));
    }
    let command = profile(Runtime::Command);
    let mut cx = context(&command);
    cx.resume = Some("x");
    assert!(matches!(launch(&cx), Err(LaunchError::CannotResume { .. })));
}

#[test]
fn launch_refuses_an_incomplete_profile() {
    let mut codex = profile(Runtime::Codex);
    codex.model = None;
    assert_eq!(
        launch(&context(&codex)),
        Err(LaunchError::NoModel { runtime: "codex" })
    );
    let mut command = profile(Runtime::Command);
    command.command.clear();
    assert_eq!(launch(&context(&command)), Err(LaunchError::NoCommand));
}

#[test]
fn launch_uses_the_program_of_the_profile() {
    let mut codex = profile(Runtime::Codex);
    let driver = driver(Runtime::Codex);
    assert_eq!(
        (driver.program(&codex), driver.version_args()),
        (Some("codex"), ["--version"].as_slice())
    );
    codex.command = vec!["/x/scripted".to_owned(), "--as".to_owned(), "codex".to_owned()];
    assert_eq!(driver.program(&codex), Some("/x/scripted"));
    let argv = launch(&context(&codex)).unwrap().argv;
    assert_eq!(argv[..4], ["/x/scripted", "--as", "codex", "exec"]);
    let vex = profile(Runtime::Vex);
    assert_eq!(vik_agents::driver(Runtime::Vex).program(&vex), None);
}

#[test]
fn terminal_session_resumes_the_conversation() {
    let id = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";
    for (runtime, expected) in [
        (Runtime::Codex, &["codex", "resume", "-m", id][..]),
        (Runtime::ClaudeCode, &["claude", "--model", "--resume", id]),
        (Runtime::Vex, &["exec", "--ask", "--resume", id]),
    ] {
        let profile = profile(runtime);
        let mut cx = context(&profile);
        cx.resume = Some(id);
        let argv = driver(runtime).terminal_session(&cx).unwrap().unwrap().argv;
        for part in expected {
            assert!(argv.iter().any(|arg| arg == part), "{part}: {argv:?}");
        }
        for flag in ["-p", "--print", "--json", "stream-json", "bypassPermissions"] {
            assert!(!argv.iter().any(|arg| arg == flag), "{argv:?}");
        }
        cx.resume = Some("--last");
        assert!(driver(runtime).terminal_session(&cx).is_err(), "{runtime:?}");
    }
    let command = profile(Runtime::Command);
    let session = driver(Runtime::Command).terminal_session(&context(&command));
    assert_eq!(session, Ok(None));
}

#[test]
fn launch_of_agents_that_may_only_write_questions() {
    let mut all = String::new();
    let mut note = |name: &str, profile: &AgentProfile, in_sandbox| {
        let cx = LaunchContext {
            in_sandbox,
            questions: Some(Path::new("/state/a [1].questions")),
            ..context(profile)
        };
        let launch = launch(&cx).unwrap();
        let is_relevant = |arg: &&String| {
            let key = arg.split(['.', '=']).next().unwrap_or_default();
            !matches!(key, "analytics" | "model_provider" | "model_providers")
        };
        let args: Vec<_> = launch.argv.iter().filter(is_relevant).cloned().collect();
        writeln!(all, "{name}\n    {}", args.join("\n    ")).unwrap();
    };
    let read_only = |runtime| AgentProfile {
        permission: Permission::ReadOnly,
        ..profile(runtime)
    };
    note("codex read-only", &read_only(Runtime::Codex), false);
    let own = AgentProfile {
        args: vec![("s".to_owned(), ArgValue::Text("workspace-write".to_owned()))],
        ..profile(Runtime::Codex)
    };
    note("codex with its own flag", &own, false);
    note(
        "claude_code read-only in Vik's sandbox",
        &read_only(Runtime::ClaudeCode),
        true,
    );
    note("claude_code read-only", &read_only(Runtime::ClaudeCode), false);
    insta::assert_snapshot!(all);
}

#[test]
fn file_for_questions_is_writable_by_permission_sandbox_and_flags() {
    let (sandboxed, roomy) = (Some(SandboxFiles::ReadOnly), Some(SandboxFiles::Workspace));
    let read_only = |runtime| AgentProfile {
        permission: Permission::ReadOnly,
        ..profile(runtime)
    };
    let with = |runtime, flag: &str, value: &str| AgentProfile {
        args: vec![(flag.to_owned(), ArgValue::Text(value.to_owned()))],
        ..profile(runtime)
    };
    let check = |profile: &AgentProfile, files, input, expected| {
        let driver = driver(profile.runtime);
        let found = driver.can_write_questions(profile, files, input);
        assert_eq!(found, expected, "{profile:?} {files:?} {input:?}");
    };
    for runtime in RUNTIMES {
        for files in [None, sandboxed, roomy] {
            check(&profile(runtime), files, InputMode::Prompt, true);
        }
    }
    let codex = read_only(Runtime::Codex);
    check(&codex, None, InputMode::Prompt, true);
    check(&codex, None, InputMode::Messages, false);
    check(&codex, sandboxed, InputMode::Messages, true);
    let own = with(Runtime::Codex, "s", "workspace-write");
    check(&own, None, InputMode::Prompt, true);
    let own = with(Runtime::Codex, "--sandbox", "read-only");
    check(&own, None, InputMode::Prompt, false);
    let claude = read_only(Runtime::ClaudeCode);
    check(&claude, None, InputMode::Prompt, false);
    check(&claude, roomy, InputMode::Prompt, false);
    check(&claude, sandboxed, InputMode::Approvals, true);
    for (mode, expected) in [
        ("plan", false),
        ("acceptEdits", true),
        ("bypassPermissions", true),
    ] {
        let own = with(Runtime::ClaudeCode, "permission-mode", mode);
        check(&own, None, InputMode::Prompt, expected);
    }
    check(&read_only(Runtime::Vex), sandboxed, InputMode::Prompt, false);
    let own = with(Runtime::Vex, "permission", "full");
    check(&own, None, InputMode::Prompt, true);
    check(&read_only(Runtime::Command), sandboxed, InputMode::Prompt, true);
}

/// Returns servers of all kinds, and a skill.
fn extensions() -> Extensions {
    let servers = serde_json::json!({
        "docs": {
            "transport": {"Http": {
                "url": "https://docs.example/mcp",
                "headers": {"Authorization": "Bearer ${DOCS_TOKEN}", "X-Key": "${DOCS_KEY}", "X-Team": "core"},
            }},
            "secrets": ["DOCS_TOKEN", "DOCS_KEY"],
            "tools": ["*"],
        },
        "nothing": {"transport": {"Stdio": {"command": ["./none"], "env": {}}}, "tools": []},
        "tickets": {
            "transport": {"Stdio": {"command": ["npx", "-y", "a \"b\""], "env": {"LEVEL": "debug"}}},
            "secrets": ["TOKEN"],
            "tools": ["list", "read.one"],
            "startup_timeout": "20s",
            "call_timeout": "1m30s",
            "max_output": 65536,
        },
    });
    let servers: BTreeMap<String, _> = serde_json::from_value(servers).unwrap();
    Extensions {
        servers: servers.into_iter().collect(),
        skills: vec!["/state/a.extensions/plugin/skills/review".into()],
        folder: "/state/a.extensions".into(),
    }
}

#[test]
fn launch_with_servers_and_skills() {
    let extensions = extensions();
    let mut all = String::new();
    for runtime in [Runtime::Codex, Runtime::ClaudeCode, Runtime::Vex] {
        for (permission, input) in [
            (Permission::WorkspaceWrite, InputMode::Prompt),
            (Permission::ReadOnly, InputMode::Approvals),
        ] {
            let mut profile = profile(runtime);
            profile.permission = permission;
            let cx = LaunchContext {
                extensions: Some(&extensions),
                in_sandbox: true,
                input,
                questions: Some(Path::new("/state/a.questions")),
                ..context(&profile)
            };
            writeln!(all, "{} {permission:?}", runtime.as_str()).unwrap();
            all.push_str(&show(&cx));
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn launch_without_servers_and_skills_is_as_before() {
    let none = Extensions::default();
    for runtime in [Runtime::Codex, Runtime::ClaudeCode, Runtime::Vex] {
        let profile = profile(runtime);
        let cx = LaunchContext {
            extensions: Some(&none),
            ..context(&profile)
        };
        assert_eq!(launch(&cx), launch(&context(&profile)), "{runtime:?}");
    }
}

#[test]
fn claude_code_needs_its_hook_for_the_tools_of_servers() {
    let extensions = extensions();
    for (flag, value) in [
        ("bare", ArgValue::Switch(true)),
        ("settings", ArgValue::Text("x".to_owned())),
    ] {
        let mut profile = profile(Runtime::ClaudeCode);
        profile.args = vec![(flag.to_owned(), value)];
        let cx = LaunchContext {
            extensions: Some(&extensions),
            ..context(&profile)
        };
        assert!(
            matches!(launch(&cx), Err(LaunchError::ReservedFlag { .. })),
            "{flag}"
        );
        assert!(launch(&context(&profile)).is_ok(), "{flag}");
    }
}
