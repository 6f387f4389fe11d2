//! The paths of a sandbox: keys stay hidden below every home, and no link of an agent opens
//! anything.

use std::path::Path;

use nix::unistd::{User, getuid};
use serde_json::json;

use crate::support::*;

/// Returns a world whose agent runs `script`, with a key in the home of its user. `/tmp` is hidden
/// inside bubblewrap.
pub fn world(script: &str) -> World {
    let world = World::below(Path::new("/var/tmp"), &[("1", "todo")]);
    world.env.write("home/.ssh/key", "KEY");
    world.env.write("home/.cache/own", "");
    let agent = json!({"runtime": "command", "command": ["sh", "-c", script], "sandbox": {}});
    world.set("/agents/a", agent).attempts(1)
}

/// Returns the sandbox backends that this machine has.
fn backends() -> impl Iterator<Item = &'static str> {
    let has_bubblewrap = std::process::Command::new("bwrap")
        .arg("--version")
        .output()
        .is_ok();
    ["landlock", "bubblewrap"]
        .into_iter()
        .take(1 + usize::from(has_bubblewrap))
}

#[test]
fn user_keys_are_hidden_whatever_home_the_agent_has() {
    for backend in backends() {
        for home in ["/elsewhere/that/is/not/there", "relative", "", "/var/tmp"] {
            let world = world("cat \"$KEYS/.ssh/key\" > got 2> why; cp -r \"$KEYS/.config/gh\" copied; true");
            world.env.write("home/.config/gh/hosts.yml", "TOKEN");
            let variables = json!({"HOME": home, "KEYS": world.env.home()});
            let world = world
                .set("/agents/a/env", variables)
                .set("/agents/a/sandbox/backend", json!(backend));
            world.once().expect(0);
            assert_eq!(world.workspace_file("1", "got"), "", "{backend} {home}");
            assert_ne!(world.workspace_file("1", "why"), "", "{backend} {home}");
            assert_eq!(
                world.workspace_file("1", "copied/hosts.yml"),
                "",
                "{backend} {home}"
            );
        }
    }
}

/// Nothing is written to the real home: a folder that contains something hidden cannot be listed.
#[test]
fn user_keys_are_hidden_when_the_daemon_has_no_home() {
    let home = User::from_uid(getuid()).unwrap().unwrap().dir;
    for given in [None, Some(""), Some("/does/not/exist")] {
        let world = world("ls \"$REAL\" > listed 2> why; true").set("/agents/a/env", json!({"REAL": home}));
        let mut command = world.env.vik(&["run", "--once"]);
        command
            .env_remove("HOME")
            .envs(given.map(|given| ("HOME", given)));
        world.start_command(command).done().expect(0);
        assert_eq!(world.workspace_file("1", "listed"), "", "{given:?}");
        assert!(world.workspace_file("1", "why").contains("denied"), "{given:?}");
    }
}

#[test]
fn keys_moved_by_a_variable_are_hidden() {
    let script =
        "cat $KEYS/docker/config.json > docker; cat $KEYS/xdg/gh/hosts.yml > xdg; cat $KEYS/open > open";
    let world = world(script);
    world.env.write("keys/open", "open");
    world.env.write("keys/docker/config.json", "TOKEN");
    world.env.write("keys/xdg/gh/hosts.yml", "TOKEN");
    let keys = world.env.path("keys");
    // The agent has another folder for its settings.
    let env = json!({"KEYS": keys, "XDG_CONFIG_HOME": "/elsewhere"});
    let world = world.set("/agents/a/env", env);
    let variables = [
        ("DOCKER_CONFIG", keys.join("docker")),
        ("XDG_CONFIG_HOME", keys.join("xdg")),
    ];
    let mut command = world.env.vik(&["run", "--once"]);
    command.envs(variables);
    world.start_command(command).done().expect(0);
    let file = |name: &str| world.workspace_file("1", name);
    assert_eq!([file("docker"), file("xdg"), file("open")], ["", "", "open"]);
}

#[test]
fn link_planted_by_an_agent_opens_nothing() {
    for backend in backends() {
        for key in ["write", "read"] {
            // The first attempt plants the link, the second one would follow it.
            let plant = "rm -rf ~/.cache/tool; ln -s .. ~/.cache/tool; exit 1";
            let use_it = "cat ~/.ssh/key > got; echo PWNED >> ~/.profile; true";
            let script = format!("if [ -e planted ]; then {use_it}; else touch planted; {plant}; fi");
            let world = world(&script).set("/agents/a/sandbox/write", json!(["~/.cache"]));
            let mut other = json!({"write": ["~/.cache"], "backend": backend});
            let places = other[key].as_array().cloned().unwrap_or_default();
            other[key] = places.into_iter().chain([json!("~/.cache/tool")]).collect();
            let world = world.set("/agents/a/sandbox", other).attempts(2);
            let world = world.work(
                "retry",
                json!({"max_attempts": 2, "backoff": {"initial": "10ms"}}),
            );
            world.once();
            let last = world.sessions("1").pop().unwrap().ended();
            let why = last.to_string();
            assert!(
                why.contains(".cache/tool is a symbolic link"),
                "{backend} {key}: {why}"
            );
            assert_eq!(world.workspace_file("1", "got"), "", "{backend} {key}");
            assert_eq!(world.env.read("home/.profile"), "", "{backend} {key}");
        }
    }
}

#[test]
fn link_of_the_user_is_followed() {
    for backend in backends() {
        let world = world("echo x > ~/.cache/made && echo y > ~/.cache/deep/made");
        std::fs::remove_dir_all(world.env.path("home/.cache")).unwrap();
        world.env.write("data/cache/deep/own", "");
        std::os::unix::fs::symlink(world.env.path("data/cache"), world.env.path("home/.cache")).unwrap();
        let sandbox = json!({"write": ["~/.cache", "~/.cache/deep"], "backend": backend});
        world.set("/agents/a/sandbox", sandbox).once().expect(0);
    }
}

#[test]
fn hidden_place_in_a_writable_folder_stays_hidden() {
    for backend in backends() {
        let script = "cat ~/.ssh/key > got; echo x > ~/.ssh/authorized_keys; echo x > ~/.cache/made; true";
        let sandbox = json!({"write": ["~"], "backend": backend});
        let world = world(script).set("/agents/a/sandbox", sandbox.clone());
        world.once().expect(0);
        assert_eq!(world.workspace_file("1", "got"), "", "{backend}");
        assert_eq!(world.env.read("home/.ssh/authorized_keys"), "", "{backend}");
        assert_eq!(world.env.read("home/.cache/made"), "x\n", "{backend}");
    }
}

#[test]
fn hidden_place_is_writable_only_if_it_is_readable() {
    let script = "cat ~/.ssh/key > got; echo x > ~/.ssh/new";
    let closed = world(script).set("/agents/a/sandbox", json!({"write": ["~/.ssh"]}));
    closed.once();
    let why = closed.session("1").ended().to_string();
    assert_contains(&why, "is hidden from agents; list it under `read`");
    let open = world(script).set(
        "/agents/a/sandbox",
        json!({"write": ["~/.ssh"], "read": ["~/.ssh"]}),
    );
    open.once().expect(0);
    assert_eq!(open.workspace_file("1", "got"), "KEY");
}

#[test]
fn private_home_is_per_issue_and_its_login_is_shared() {
    let login = |token: &str| json!({"tokens": {"access_token": token, "account_id": "me"}});
    let script = "echo 'notify = [\"evil\"]' >> \"$CODEX_HOME/config.toml\"; ls -A \"$CODEX_HOME\" > seen; \
        cat \"$CODEX_HOME/auth.json\" > login; \
        cat \"$CODEX_HOME/config.toml\" > config; \
        sed s/old/new/ \"$CODEX_HOME/auth.json\" > $TMPDIR/login && cat $TMPDIR/login > \"$CODEX_HOME/auth.json\"; \
        exec codex \"$@\"";
    let command = ["sh", "-c", script, "sh"];
    let agent =
        json!({"runtime": "codex", "model": "m", "home": "private", "command": command, "sandbox": {}});
    let world = World::new(&[])
        .set("/agents/a", agent)
        .set("/loop", json!({"max_issue_concurrency": 1}));
    world.once();
    // The folder where the user logs in, in which earlier versions had the homes of agents, with
    // files that an agent may have left there.
    let profile = world.home().join("homes/a");
    std::fs::create_dir_all(&profile).unwrap();
    std::fs::write(profile.join("auth.json"), login("old").to_string()).unwrap();
    std::fs::write(profile.join("hooks.json"), "planted before").unwrap();
    world.tracker.add("1", "One", "todo");
    world.tracker.add("2", "Two", "todo");
    world.once().expect(0);
    for (issue, token) in [("1", "old"), ("2", "new")] {
        let file = |name: &str| world.workspace_file(issue, name);
        assert_eq!(file("config").lines().count(), 1, "{issue}: {}", file("config"));
        assert!(!file("seen").contains("hooks.json"), "{issue}: {}", file("seen"));
        assert!(file("login").contains(token), "{issue}: {}", file("login"));
    }
    let kept = std::fs::read_to_string(profile.join("auth.json")).unwrap();
    assert_contains(&kept, "new");
}

pub fn git(folder: &Path, line: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-ec", line])
        .current_dir(folder)
        .envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_AUTHOR_NAME", "n"),
            ("GIT_AUTHOR_EMAIL", "e"),
        ])
        .envs([("GIT_COMMITTER_NAME", "n"), ("GIT_COMMITTER_EMAIL", "e")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn linked_work_tree_takes_commits_and_shields_the_main_one() {
    let script = "cat > prompt; own=$(sed 's/gitdir: //' .git); common=${own%/worktrees/*}; \
        echo 1 > one && git add one && git commit -qm one && git commit -q --amend -m 'one again' && \
        git checkout -q -b extra && echo 2 > two && git add two && git commit -qm two && git checkout -q vik/1 && \
        echo 3 > staged && git add staged && git gc -q && git stash list && echo fine > committed; \
        rm -rf $common/objects/* $common/refs/heads/* $common/logs/*; git update-ref refs/heads/main vik/1; \
        git update-ref refs/replace/$(git rev-parse main) vik/1; git update-ref refs/notes/x vik/1; \
        git --git-dir=$common update-ref refs/heads/other vik/1; git --git-dir=$common branch -D other; \
        echo /nowhere > $common/objects/info/alternates; echo x >> $common/config; \
        mkdir evil; git init -q --bare evil; echo $PWD/evil > $own/commondir; echo /nowhere > $own/gitdir; true";
    for backend in backends() {
        let world = world(script);
        let main = world.env.path("main");
        let script = "git init -q -b main main; cd main; echo 0 > zero; git add .; git commit -qm zero; git branch other; \
            git commit -q --allow-empty -m main; git pack-refs --all";
        git(world.env.root(), script);
        let before = git(&main, "git rev-parse main other; cat .git/config");
        let create = format!("git -C {} worktree add -q -b vik/1 \"$PWD\"", main.display());
        let world = world
            .set("/issue/hooks", json!({"after_create": create}))
            .set("/agents/a/sandbox/backend", json!(backend));
        world.once().expect(0);
        let workspace = world.workspace("1");
        assert_eq!(world.workspace_file("1", "committed"), "fine\n", "{backend}");
        assert_eq!(
            git(&main, "git rev-parse main other; cat .git/config"),
            before,
            "{backend}"
        );
        assert_eq!(
            git(&main, "git log --format=%s vik/1"),
            "one again\nmain\nzero\n",
            "{backend}"
        );
        assert_eq!(git(&main, "git log -1 --format=%s extra"), "two\n", "{backend}");
        git(&main, "git fsck --strict");
        assert_eq!(
            git(&main, "git for-each-ref refs/replace refs/notes"),
            "",
            "{backend}"
        );
        assert_eq!(
            git(
                &workspace,
                "git branch --show-current; git diff --cached --name-only"
            ),
            "vik/1\nstaged\n"
        );
        assert_eq!(
            git(
                &workspace,
                "git rev-parse --path-format=absolute --git-common-dir"
            )
            .trim(),
            main.join(".git").to_str().unwrap()
        );
        assert!(
            !git(&main, "ls .git/objects/info").contains("alternates"),
            "{backend}"
        );
    }
}

/// git trusts the name under which an object is stored: an object with other content under the name
/// of a file that is not fetched yet would reach the user with the next merge.
#[test]
fn forged_objects_of_a_linked_work_tree_are_refused() {
    let script = "cat > prompt; objects=$(git rev-parse --git-path objects); \
        path() { echo $objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); }; \
        real=$(echo real | git hash-object --stdin); evil=$(echo evil | git hash-object -w --stdin); \
        mkdir -p $(dirname $(path $real)); cp $(path $evil) $(path $real); echo $real > real; \
        tree=$(printf '100644 blob %s\\tbuild.sh\\n' $real | git mktree); \
        git update-ref refs/heads/vik/1 $(git commit-tree -p HEAD -m forged $tree); git show vik/1:build.sh > seen";
    let world = world(script).attempts(1);
    let main = world.env.path("main");
    git(
        world.env.root(),
        "git init -q -b main main; cd main; git commit -q --allow-empty -m zero",
    );
    let before = git(&main, "git rev-parse main");
    let create = format!("git -C {} worktree add -q -b vik/1 \"$PWD\"", main.display());
    let world = world.set("/issue/hooks", json!({"after_create": create}));
    world.once().expect(1);
    assert_eq!(
        world.workspace_file("1", "seen"),
        "evil\n",
        "the forgery is believed"
    );
    let ended = world.session("1").expect("failed", Some("agent"));
    let reason = ended["reason"].as_str().unwrap();
    assert_contains(reason, "cannot copy");
    assert_eq!(git(&main, "git rev-parse vik/1"), before);
    let real = world.workspace_file("1", "real");
    let found = git(
        &main,
        &format!("git cat-file -e {} 2>&1 || echo none", real.trim()),
    );
    assert!(found.ends_with("none\n"), "{found}");
}
