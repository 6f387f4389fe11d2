//! A remote host for `vik worker install`: a real sshd, without a port, and a stand-in for systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vik_testkit::{TestEnv, report_skipped};

use crate::support::Done;

/// Programs of the host that change something; each call is recorded, and can be the last one.
const CHANGING: &[&str] = &["chmod", "ln", "mkdir", "mv", "rm", "sync", "tar"];

const WORKFLOW: &str = "
issues: { pull: { command: cat issues.json } }
agents: { a: { runtime: codex, model: m, skills: [skills/review] } }
issue: { stages: { work: { when: { state: todo }, agent: a, prompt_file: prompts/work.md } } }
";

/// A host named `build-1`, as the `ssh` of the test knows it.
pub struct Remote {
    pub env: TestEnv,
}

impl Remote {
    /// Returns a host; `None`, and prints the reason, where there is no SSH server.
    pub fn new() -> Option<Self> {
        let programs = ["ssh", "sshd", "ssh-keygen"].map(|name| (name, find(name)));
        if let Some((name, _)) = programs.iter().find(|(_, path)| path.is_none()) {
            let required = std::env::var_os("VIK_REQUIRE_SSHD").is_some();
            assert!(!required, "{name} is not installed");
            report_skipped(&format!("{name} is not installed"));
            return None;
        }
        let [ssh, sshd, keygen] = programs.map(|(_, path)| path.unwrap());
        let remote = Self {
            env: TestEnv::new(env!("CARGO_BIN_EXE_vik")),
        };
        remote.write_keys(&keygen);
        remote.write_server(&sshd);
        remote.write_client(&ssh, &sshd);
        remote.write_host();
        remote.write_workflow();
        Some(remote)
    }

    fn write_keys(&self, keygen: &Path) {
        fs::create_dir(self.env.path("ssh")).unwrap();
        for name in ["host", "user", "other"] {
            let mut command = self.env.command(keygen);
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            let status = command.arg(self.env.path("ssh").join(name)).status();
            assert!(status.unwrap().success());
        }
        self.trust("host");
        self.authorize("user");
    }

    /// Makes the key with this name the one that `ssh` knows as that of the host.
    pub fn trust(&self, name: &str) {
        let key = self.env.read(format!("ssh/{name}.pub"));
        self.env.write("ssh/known_hosts", format!("build-1 {key}"));
    }

    /// Makes the key with this name the only one that may log in.
    pub fn authorize(&self, name: &str) {
        let key = self.env.read(format!("ssh/{name}.pub"));
        self.env.write("ssh/authorized_keys", key);
    }

    fn write_server(&self, sshd: &Path) {
        let path = |name: &str| self.env.path(name).display().to_string();
        // As root, the server has a folder that its package creates at the start of the machine.
        if nix::unistd::getuid().is_root() {
            let _ = fs::create_dir_all("/run/sshd");
        }
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nForceCommand {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitUserRC no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n",
            path("ssh/host"),
            path("ssh/authorized_keys"),
            path("remote/login"),
        );
        let config = self.env.write("ssh/sshd_config", config);
        let checked = Command::new(sshd)
            .arg("-t")
            .arg("-f")
            .arg(config)
            .output()
            .unwrap();
        assert!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        );
        // The login shell of the user gets nothing but this.
        let login = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$SSH_ORIGINAL_COMMAND\" >>{root}/commands\ncd {root}/home || exit\n\
             exec env -i HOME={root}/home REMOTE={root} PATH={root}/bin:/usr/bin:/bin {mark}={value} \
             /bin/sh -c \"echo Welcome; $SSH_ORIGINAL_COMMAND\"\n",
            root = path("remote"),
            mark = TestEnv::MARK,
            value = self.env.mark(),
        );
        self.script("remote/login", &login);
    }

    /// Writes an `ssh` with a configuration of this test. Its server is a child of it.
    fn write_client(&self, ssh: &Path, sshd: &Path) {
        let path = |name: &str| self.env.path(name).display().to_string();
        let config = format!(
            "Host build-1\n  ProxyCommand {} -i -f {} -E {}\n  IdentityFile {}\n  IdentitiesOnly yes\n\
             IdentityAgent none\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n\
             Host closed\n  HostName 127.0.0.1\n  Port 1\n",
            sshd.display(),
            path("ssh/sshd_config"),
            path("ssh/log"),
            path("ssh/user"),
            path("ssh/known_hosts"),
        );
        let config = self.env.write("ssh/config", config);
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$*\" >>{}\nexec {} -F {} \"$@\"\n",
            path("ssh/calls"),
            ssh.display(),
            config.display()
        );
        self.script("bin/ssh", &script);
    }

    /// Writes the programs of the host.
    fn write_host(&self) {
        for folder in ["remote/home", "remote/systemd", "remote/bin"] {
            fs::create_dir_all(self.env.path(folder)).unwrap();
        }
        self.env.write("remote/lib.sh", include_str!("lib.sh"));
        for name in CHANGING {
            let path = find(name).unwrap();
            let script = format!(
                "#!/bin/sh\n. \"$REMOTE/lib.sh\"\nrecord \"$@\"\nexec {} \"$@\"\n",
                path.display()
            );
            self.script(&format!("remote/bin/{name}"), &script);
        }
        self.script("remote/bin/systemctl", include_str!("systemctl.sh"));
        self.script("remote/bin/loginctl", include_str!("loginctl.sh"));
        self.script(
            "remote/bin/sleep",
            "#!/bin/sh\n. \"$REMOTE/lib.sh\"\nspend_second\n",
        );
        self.script(
            "remote/bin/journalctl",
            "#!/bin/sh\necho 'cannot reach the server'\n",
        );
    }

    fn write_workflow(&self) {
        self.env.workflow(WORKFLOW);
        self.env
            .write("work/prompts/work.md", "Work on {{ issue.title }}.\n");
        let skill = "---\nname: review\ndescription: Reviews.\n---\nReview.\n";
        self.env.write("work/skills/review/SKILL.md", skill);
        self.script("work/skills/review/run.sh", "#!/bin/sh\necho run\n");
        self.program("1");
    }

    /// Writes an executable file.
    pub fn script(&self, path: &str, text: &str) -> PathBuf {
        let path = self.env.write(path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Makes a script with this version the program to install.
    pub fn program(&self, version: &str) {
        let text = format!(
            "#!/bin/sh\ncase $1 in --version) echo vik {version} ;; doctor) cat \"$REMOTE/doctor.json\" ;; worker) ;; \
             *) exit 2 ;; esac\n"
        );
        self.script("work/program", &text);
        self.env.write("remote/doctor.json", "{\n\"checks\": []\n}\n");
    }

    /// Replaces a program of the host by one that prints this.
    pub fn fake(&self, name: &str, output: &str) {
        self.script(
            &format!("remote/bin/{name}"),
            &format!("#!/bin/sh\ncat <<'END'\n{output}\nEND\n"),
        );
    }

    /// Returns `vik worker install --program program` with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.vik(["worker", "install"]);
        command.args(["--program", "program"]).args(args);
        command.stdin(Stdio::null());
        command
    }

    /// Runs the command with these arguments, and a worker on `build-1`.
    #[track_caller]
    pub fn install(&self, args: &[&str]) -> Done {
        done(&mut self.command(&[&["build-1"], args].concat()))
    }

    /// Returns a file below the home directory of the remote user.
    pub fn file(&self, path: &str) -> String {
        self.env.read(Path::new("remote/home").join(path))
    }

    pub fn mode(&self, path: &str) -> u32 {
        let path = self.env.path("remote/home").join(path);
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Returns the paths of all files below the home directory, with their contents.
    pub fn tree(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        let root = self.env.path("remote/home");
        list(&root, &mut files);
        let mut files: Vec<_> = files
            .into_iter()
            .map(|path| {
                let below = path.strip_prefix(&root).unwrap().display().to_string();
                let text = self.file(&below);
                (below, text)
            })
            .collect();
        files.sort();
        files
    }

    /// Returns the recorded calls of programs of the host that change something, and removes them.
    pub fn take_calls(&self) -> Vec<String> {
        let calls = self.env.read("remote/calls");
        self.env.write("remote/calls", "");
        calls.lines().map(str::to_owned).collect()
    }

    /// Kills the shell of the host at this call of a program that changes something.
    pub fn break_off_at(&self, call: Option<usize>) {
        self.env.write("remote/calls", "");
        let call = call.map_or_else(String::new, |call| call.to_string());
        self.env.write("remote/break_at", call);
    }

    /// Sets a property of the stand-in for systemd.
    pub fn systemd(&self, property: &str, value: &str) {
        self.env.write(Path::new("remote/systemd").join(property), value);
    }
}

/// Waits for the end of a command.
pub fn done(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into(), "/bin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
