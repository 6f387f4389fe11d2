//! MCP servers and skills of an agent: a private folder with what it reads, and the section of its
//! prompt about skills.
//!
//! Skills are copied, so that what an agent reads is what the record of its attempt names, and no
//! agent can change the skill of another one.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use vik_agents::{Extensions, LaunchFile, driver};
use vik_api::SkillView;
use vik_base::report;
use vik_core::outcome::FailureClass;
use vik_core::workflow::{McpServer, McpTransport, Runtime};
use vik_proc::{Reads, Sandbox};
use vik_store::{AttemptFailure, AttemptFiles};
use vik_workflow::{SKILL_FILE, Skill};
use vik_workspace::fs as private;

use super::opened::{AttemptContext, broken};

impl AttemptContext<'_> {
    fn skill_paths(&self) -> &[String] {
        self.start().stage.skill_paths(&self.spec.profile)
    }

    /// Returns the names of the secrets that the agent gets.
    pub(super) fn agent_secrets(&self) -> Vec<String> {
        self.attempt
            .workflow
            .agent_secrets(&self.spec.profile, &self.start().stage)
    }

    /// Creates the folder with the skills, and returns what the agent gets; `None` for nothing.
    pub(super) async fn prepare_extensions(&self) -> Result<Option<Extensions>, AttemptFailure> {
        let profile = &self.spec.profile;
        let stage = &self.start().stage;
        let servers: Vec<_> = self
            .attempt
            .workflow
            .mcp_servers(profile, stage)
            .map(|(name, server)| (name.clone(), self.located(name, server)))
            .collect();
        // The workflow may have changed since the attempt was decided on.
        if let Some(name) = stage
            .mcp_names(profile)
            .iter()
            .find(|name| !servers.iter().any(|(own, _)| own == *name))
        {
            let reason = format!("the workflow has no MCP server `{name}` any more");
            return Err(AttemptFailure::failed(FailureClass::Usage, reason));
        }
        let paths = self.skill_paths().to_vec();
        if servers.is_empty() && paths.is_empty() {
            return Ok(None);
        }
        let (files, workflow_dir) = (self.files.clone(), self.host().workflow_dir.clone());
        let runtime = profile.runtime;
        let copies = move || copy_skills(&files, &workflow_dir, &paths, runtime);
        let skills = spawn_blocking(copies).await;
        let skills = skills.map_err(|error| broken("cannot copy the skills", &error))??;
        Ok(Some(Extensions {
            servers,
            skills,
            folder: self.files.extensions_dir(),
        }))
    }

    /// Returns a server as the agent starts it: with the path of its program, or with that of the
    /// client of a server with a sandbox of its own.
    fn located(&self, name: &str, server: &McpServer) -> McpServer {
        if server.has_own_sandbox() {
            return self.client_of(name, server);
        }
        let mut server = server.clone();
        if let McpTransport::Stdio { command, .. } = &mut server.transport {
            let program = self.host().program_of_server(command);
            if let Some(first) = command.first_mut() {
                *first = program;
            }
        }
        server
    }

    /// Writes the private files of the command line, and lets the sandbox read them and the programs of
    /// servers: the folder of the workflow may be hidden.
    pub(super) fn show_extensions(
        &self,
        extensions: &Extensions,
        files: &[LaunchFile],
        sandbox: Option<&mut Sandbox>,
    ) -> Result<(), AttemptFailure> {
        for file in files {
            private::create_parent(&file.path)
                .and_then(|()| private::write_private(&file.path, file.text.as_bytes()))
                .map_err(|error| broken("cannot write a file for the agent", &error))?;
        }
        if let Some(Reads::AllBut { shown, .. }) = sandbox.map(|sandbox| &mut sandbox.read) {
            let programs = extensions
                .servers
                .iter()
                .filter_map(|(_, server)| match &server.transport {
                    McpTransport::Stdio { command, .. } => {
                        command.first().filter(|program| program.contains('/'))
                    }
                    McpTransport::Http { .. } => None,
                });
            let places = programs.map(PathBuf::from).chain([self.files.extensions_dir()]);
            shown.extend(places.map(|path| path.canonicalize().unwrap_or(path)));
        }
        Ok(())
    }

    /// Removes the folders of an agent that has ended.
    pub(super) fn remove_extensions(&self) {
        let files = self.files;
        for folder in [files.extensions_dir(), files.server_pipes(), files.servers_dir()] {
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    /// Returns the section of the prompt that lists the skills, for an agent that has no option for
    /// them; "" for others.
    pub(super) async fn skills_section(&self) -> Result<String, AttemptFailure> {
        let paths = self.skill_paths().to_vec();
        if paths.is_empty() || !driver(self.spec.profile.runtime).needs_skill_list() {
            return Ok(String::new());
        }
        let workflow_dir = self.host().workflow_dir.clone();
        let read = spawn_blocking(move || read_skills(&workflow_dir, &paths)).await;
        let skills = read.map_err(|error| broken("cannot read the skills", &error))??;
        Ok(section(&skills, &self.files.extensions_dir()))
    }
}

fn section(skills: &[Skill], folder: &Path) -> String {
    let mut out = "\n\n---\nVik: skills\n\nEach skill is a file with instructions for one kind of task. If one fits what you do, read \
                   its file completely before, and follow it. Paths in it are relative to its folder.\n\n"
        .to_owned();
    for skill in skills {
        let file = Extensions::skills_dir(folder).join(&skill.name).join(SKILL_FILE);
        let file = file.to_string_lossy();
        let (description, file) = (
            vik_core::visible::visible(&skill.description),
            vik_core::visible::visible(&file),
        );
        let _ = writeln!(out, "- {}: {description} (file: `{file}`)", skill.name);
    }
    out
}

fn read_skills(workflow_dir: &Path, paths: &[String]) -> Result<Vec<Skill>, AttemptFailure> {
    let read = paths.iter().map(|path| Skill::read(workflow_dir, path));
    read.collect::<Result<_, _>>()
        .map_err(|error| AttemptFailure::failed(FailureClass::Usage, report::chain(&error)))
}

/// Copies the skills, and records their digests. Returns the folders of the copies.
fn copy_skills(
    files: &AttemptFiles,
    workflow_dir: &Path,
    paths: &[String],
    runtime: Runtime,
) -> Result<Vec<PathBuf>, AttemptFailure> {
    let folder = files.extensions_dir();
    let failed = |error: io::Error| broken("cannot copy the skills of the agent", &error);
    // An earlier daemon may have died here.
    private::if_exists(std::fs::remove_dir_all(&folder)).map_err(failed)?;
    private::create_private_dir_all(&folder).map_err(failed)?;
    let skills = read_skills(workflow_dir, paths)?;
    let (mut copies, mut views) = (Vec::new(), Vec::new());
    for skill in &skills {
        let copy = Extensions::skills_dir(&folder).join(&skill.name);
        let digest = copy_skill(skill, &copy, runtime).map_err(failed)?;
        copies.push(copy);
        views.push(SkillView {
            name: skill.name.clone(),
            sha256: digest,
        });
    }
    if !views.is_empty() {
        private::write_json_atomic(&files.skills(), &views).map_err(failed)?;
    }
    Ok(copies)
}

/// Copies a skill, and returns the digest of its paths and contents, in hexadecimal. Claude Code
/// follows what a skill grants itself, so it gets a [`SKILL_FILE`] without that.
fn copy_skill(skill: &Skill, copy: &Path, runtime: Runtime) -> io::Result<String> {
    let mut digest = Sha256::new();
    for file in &skill.files {
        let bytes = skill.content(file)?;
        let path = copy.join(&file.path);
        private::create_parent(&path)?;
        if runtime == Runtime::ClaudeCode && file.path == Path::new(SKILL_FILE) {
            private::write_private(&path, skill.without_grants(&bytes)?.as_bytes())?;
        } else {
            private::write_private(&path, &bytes)?;
        }
        if file.is_executable {
            let copied = private::open(&path)?;
            copied.set_permissions(std::fs::Permissions::from_mode(0o700))?;
        }
        // Each field with its length, so that no two skills have the same input.
        let name = file.path.as_os_str().as_encoded_bytes();
        for field in [name, &[u8::from(file.is_executable)], &bytes] {
            digest.update((field.len() as u64).to_le_bytes());
            digest.update(field);
        }
    }
    let hex = digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok(hex)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn skills_are_copied_and_their_digest_covers_every_file() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("review");
        fs::create_dir_all(source.join("scripts")).unwrap();
        fs::write(
            source.join(SKILL_FILE),
            "---\nname: review\ndescription: Reviews.\n---\n",
        )
        .unwrap();
        fs::write(source.join("scripts/run.sh"), "echo").unwrap();
        fs::set_permissions(source.join("scripts/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let files = AttemptFiles::new(
            &folder.path().join("sessions"),
            &"plan".into(),
            vik_core::ids::AttemptId(uuid::Uuid::nil()),
        );
        let paths = ["review".to_owned()];
        let copy = || copy_skills(&files, folder.path(), &paths, Runtime::Vex).unwrap();
        let views = || private::read_json::<Vec<SkillView>>(&files.skills()).unwrap();
        let copies = copy();
        let script = copies[0].join("scripts/run.sh");
        assert_eq!(fs::read_to_string(&script).unwrap(), "echo");
        assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o700);
        let mode = fs::metadata(files.extensions_dir()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let first = views();
        assert_eq!((first[0].name.as_str(), first[0].sha256.len()), ("review", 64));
        assert_eq!(copy(), copies);
        assert_eq!(views(), first);
        fs::write(source.join("scripts/run.sh"), "echo 2").unwrap();
        copy();
        assert_ne!(views(), first);
        let skills = read_skills(folder.path(), &paths).unwrap();
        let text = section(&skills, &files.extensions_dir());
        let file = copies[0].join(SKILL_FILE);
        assert!(
            text.contains(&format!("- review: Reviews. (file: `{}`)", file.display())),
            "{text}"
        );
    }

    #[test]
    fn skill_grants_claude_code_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("review");
        fs::create_dir_all(&source).unwrap();
        let grants = "allowed-tools: Bash\nhooks:\n  Stop:\n    - hooks: [{type: command, command: id}]\n";
        let text = |grants: &str| format!("---\nname: review\n{grants}description: Reviews.\n---\nBody\n");
        fs::write(source.join(SKILL_FILE), text(grants)).unwrap();
        let skill = Skill::read(folder.path(), "review").unwrap();
        let copy = |runtime, name: &str| {
            let copy = folder.path().join(name);
            let digest = copy_skill(&skill, &copy, runtime).unwrap();
            (digest, fs::read_to_string(copy.join(SKILL_FILE)).unwrap())
        };
        let (digest, copied) = copy(Runtime::ClaudeCode, "claude");
        assert_eq!(copied, text(""));
        assert_eq!(copy(Runtime::Vex, "vex"), (digest, text(grants)));
    }
}
