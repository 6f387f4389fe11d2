//! MCP servers with sandboxes of their own: the shim starts them beside the agent, which gets none of
//! their secrets, and a client in place of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vik_agents::{common_variables, driver};
use vik_core::outcome::FailureClass;
use vik_core::workflow::{McpSandbox, McpServer, McpTransport};
use vik_proc::servers::{CONNECT_VERB, ServerSpec, Servers};
use vik_proc::{Sandbox, ShimSpec};
use vik_store::AttemptFailure;
use vik_workspace::fs as private;

use super::opened::{AttemptContext, broken};
use super::scripts::ScriptRunner;
use crate::host::os_env;

/// The variable of the agent with the folder of the pipes to its servers: an agent that confines its
/// children itself has to let them write there.
pub const SERVERS: &str = "VIK_SERVERS";

/// The variable with the path of the workspace, as the working directory is another one.
const WORKSPACE: &str = "VIK_WORKSPACE";

impl AttemptContext<'_> {
    /// Returns the servers of the attempt that have a sandbox of their own.
    pub(super) fn own_servers(&self) -> impl Iterator<Item = (&String, &McpServer)> {
        let workflow = &self.attempt.workflow;
        let servers = workflow.mcp_servers(&self.spec.profile, &self.start().stage);
        servers.filter(|(_, server)| server.has_own_sandbox())
    }

    /// Returns what the agent starts in place of such a server: a client without secrets.
    pub(super) fn client_of(&self, name: &str, server: &McpServer) -> McpServer {
        let vik = &self.host().vik;
        let vik = vik.canonicalize().unwrap_or_else(|_| vik.clone());
        let paths = [&vik, &self.files.server_pipes()].map(|path| path.to_string_lossy().into_owned());
        let [vik, pipes] = paths;
        McpServer {
            transport: McpTransport::Stdio {
                command: vec![vik, CONNECT_VERB.to_owned(), pipes, name.to_owned()],
                env: BTreeMap::new(),
                sandbox: McpSandbox::Agent,
            },
            secrets: Vec::new(),
            ..server.clone()
        }
    }
}

impl ScriptRunner<'_> {
    /// Gives the shim of the agent the servers with sandboxes of their own, and lets the sandbox of
    /// the agent create the pipes of a connection.
    pub(super) fn separate_servers(
        &self,
        spec: &mut ShimSpec,
        agent_env: &mut BTreeMap<String, String>,
    ) -> Result<(), AttemptFailure> {
        let cx = self.cx;
        let mut servers = cx.own_servers().peekable();
        if servers.peek().is_none() {
            return Ok(());
        }
        let failed = |error: std::io::Error| broken("cannot create the folder of an MCP server", &error);
        let (pipes, folders) = (cx.files.server_pipes(), cx.files.servers_dir());
        // An earlier daemon may have died here.
        for folder in [&pipes, &folders] {
            private::if_exists(std::fs::remove_dir_all(folder)).map_err(failed)?;
            private::create_private_dir_all(folder).map_err(failed)?;
        }
        let workdir = spec.cwd.clone();
        // Loading the workflow checked that, but it may have changed since the attempt was decided on.
        let forbids_sockets = |sandbox: &&mut Sandbox| {
            let calls = sandbox.calls.as_ref();
            calls.is_some_and(|calls| !calls.unix_sockets)
        };
        let Some(agent) = spec.sandbox.as_mut().filter(forbids_sockets) else {
            let reason =
                "an MCP server with `sandbox: own` requires a sandbox for its agent, without `unix_sockets`";
            return Err(AttemptFailure::failed(FailureClass::Usage, reason));
        };
        agent
            .write
            .push(pipes.canonicalize().unwrap_or_else(|_| pipes.clone()));
        let profile = &cx.spec.profile;
        let agent_files = driver(profile.runtime).state_paths(profile, agent_env);
        let programs = servers.map(|(name, server)| {
            let folder = folders.join(name);
            private::create_private_dir_all(&folder).map_err(failed)?;
            let folder = folder.canonicalize().map_err(failed)?;
            let mut program = self.server(name, server, &workdir, folder, agent)?;
            program.sandbox.hide(&agent_files);
            Ok((name.clone(), program))
        });
        let programs = programs.collect::<Result<_, AttemptFailure>>()?;
        agent_env.insert(SERVERS.to_owned(), pipes.to_string_lossy().into_owned());
        spec.servers = Some(Servers {
            folder: pipes,
            log: cx.files.servers_log(),
            programs,
        });
        Ok(())
    }

    fn server(
        &self,
        name: &str,
        server: &McpServer,
        workdir: &Path,
        folder: PathBuf,
        agent: &Sandbox,
    ) -> Result<ServerSpec, AttemptFailure> {
        let cx = self.cx;
        let (command, own) = match &server.transport {
            McpTransport::Stdio { command, env, .. } => (command.as_slice(), env.clone()),
            McpTransport::Http { .. } => (&[][..], BTreeMap::new()),
        };
        let mut env = common_variables(&cx.host().environment.shared());
        cx.add_vik_variables(&mut env);
        env.insert(WORKSPACE.to_owned(), workdir.to_string_lossy().into_owned());
        env.extend(own.clone());
        if let Some(path) = env.get_mut("PATH") {
            *path = without_writable(path, agent);
        }
        let program = program(&cx.host().program_of_server(command), &env);
        if let Some(place) = writable_place(&program, agent) {
            let reason = format!(
                "the program of the MCP server `{name}`, {}, is in {}, which its agent can write: with `sandbox: own` the agent \
                 would get the secrets of the server",
                program.display(),
                place.display()
            );
            return Err(AttemptFailure::failed(FailureClass::Usage, reason));
        }
        let policy = cx.sandbox_policy().unwrap_or_default();
        let mut sandbox = cx.confine_server(&policy, workdir, &folder, &own, &mut env)?;
        sandbox.show(&program);
        env.extend(self.secret_variables(&server.secrets));
        Ok(ServerSpec {
            program: program.into(),
            args: command.iter().skip(1).map(Into::into).collect(),
            cwd: folder,
            env: os_env(env),
            sandbox,
        })
    }
}

/// Returns the path of a program: a name is searched for in the `PATH` of the server. A name that is
/// not found stays as it is, for the error of the start.
fn program(name: &str, env: &BTreeMap<String, String>) -> PathBuf {
    let path = env.get("PATH").map_or("", String::as_str);
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute() && !name.contains('/'));
    let mut candidates = folders.map(|folder| folder.join(name));
    let found = candidates.find(|candidate| candidate.is_file());
    found.unwrap_or_else(|| PathBuf::from(name))
}

/// Returns a search path without the folders that the agent can write: it could put a program of its
/// own before another one.
fn without_writable(path: &str, agent: &Sandbox) -> String {
    let folders = path.split(':');
    let safe = folders.filter(|folder| writable_place(Path::new(folder), agent).is_none());
    safe.collect::<Vec<_>>().join(":")
}

/// Returns the place with this file or folder that the agent can write.
fn writable_place<'a>(path: &Path, agent: &'a Sandbox) -> Option<&'a Path> {
    let target = path.canonicalize();
    let holds = |place: &&PathBuf| {
        let target = target.as_ref().is_ok_and(|target| target.starts_with(place));
        target || path.starts_with(place)
    };
    agent.write.iter().find(holds).map(PathBuf::as_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_the_agent_can_write_hold_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let work = root.join("work");
        for bin in [&work, &root] {
            std::fs::create_dir_all(bin.join("bin")).unwrap();
            std::fs::write(bin.join("bin/server"), "").unwrap();
        }
        std::os::unix::fs::symlink(work.join("bin"), root.join("linked")).unwrap();
        let agent = Sandbox {
            write: vec!["/dev/null".into(), work.clone()],
            ..Sandbox::default()
        };
        let path = ["work/bin", "linked", "bin"].map(|part| root.join(part));
        let path = path.map(|part| part.to_string_lossy().into_owned()).join(":");
        let safe = without_writable(&format!("{path}:relative"), &agent);
        assert_eq!(safe, format!("{}:relative", root.join("bin").display()));
        let env = BTreeMap::from([("PATH".to_owned(), safe)]);
        assert_eq!(program("server", &env), root.join("bin/server"));
        assert_eq!(program("no-such-server", &env), Path::new("no-such-server"));
        let found = |part: &str| writable_place(&root.join(part), &agent);
        assert_eq!(found("linked/server"), Some(work.as_path()));
        assert_eq!(found("work/none"), Some(work.as_path()));
        assert_eq!(found("bin/server"), None);
    }
}
