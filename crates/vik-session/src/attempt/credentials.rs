//! Withholds credentials from what runs code of an agent that requests outputs.

use std::collections::BTreeMap;
use std::path::Path;

use vik_core::outcome::FailureClass;
use vik_core::workflow::SecretSource;
use vik_proc::Sandbox;
use vik_store::AttemptFailure;
use vik_workspace::resolve_path;

use super::questions::create_request_file;
use super::scripts::ScriptRunner;
use crate::outputs::{CredentialGuard, FILE};

impl ScriptRunner<'_> {
    /// Withholds credentials from an agent that has outputs, and creates the file in which it
    /// requests them.
    pub(super) fn withhold_credentials(
        &self,
        workdir: &Path,
        env: &mut BTreeMap<String, String>,
        sandbox: Option<&mut Sandbox>,
    ) -> Result<(), AttemptFailure> {
        if self.cx.start().stage.outputs.is_none() {
            return Ok(());
        }
        let refused = |why: String| AttemptFailure::failed(FailureClass::Usage, why);
        let allows_unix_sockets =
            |sandbox: &Sandbox| sandbox.calls.as_ref().is_none_or(|calls| calls.unix_sockets);
        let Some(sandbox) = sandbox.filter(|sandbox| !allows_unix_sockets(sandbox)) else {
            return Err(refused(
                "`outputs` requires a sandbox without `unix_sockets`".to_owned(),
            ));
        };
        self.with_guard(workdir, |guard| {
            guard.environment(env)?;
            guard.git(env)?;
            guard.sandbox(sandbox, env)
        })
        .map_err(|leak| {
            refused(format!(
                "an agent with `outputs` must not have access to a credential: {leak}"
            ))
        })?;
        let file = self.cx.output_file();
        env.insert(FILE.to_owned(), file.to_string_lossy().into_owned());
        create_request_file(&file, "the outputs file", Some(sandbox))
    }

    /// Withholds the same from `verify`, which runs code that the agent wrote.
    pub(super) fn withhold_credentials_from_verify(
        &self,
        workdir: &Path,
        env: &mut BTreeMap<String, String>,
        sandbox: Option<&mut Sandbox>,
    ) -> Result<(), AttemptFailure> {
        if self.cx.start().stage.outputs.is_none() {
            return Ok(());
        }
        self.with_guard(workdir, |guard| {
            guard.environment_of_script(env);
            sandbox.map_or(Ok(()), |sandbox| guard.sandbox(sandbox, env))
        })
        .map_err(|leak| {
            let reason = format!(
                "`verify` runs code that the agent wrote and must not have access to a credential: {leak}"
            );
            AttemptFailure::failed(FailureClass::Usage, reason)
        })
    }

    fn with_guard<T>(&self, workdir: &Path, act: impl FnOnce(&CredentialGuard<'_>) -> T) -> T {
        let workflow = &self.cx.attempt.workflow;
        let listed = self.cx.agent_secrets();
        let of_outputs = self
            .cx
            .start()
            .stage
            .outputs
            .iter()
            .flat_map(|outputs| &outputs.secrets);
        let of_show = workflow.show.iter().flat_map(|show| &show.secrets);
        let names: Vec<&str> = of_outputs
            .chain(&workflow.pull.secrets)
            .chain(of_show)
            .map(String::as_str)
            .collect();
        let owned: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let files: Vec<_> = (workflow.secrets.iter())
            .filter(|(name, _)| !listed.contains(name))
            .filter_map(|(_, source)| match source {
                SecretSource::File(file) => Some(resolve_path(&self.cx.host().workflow_dir, file)),
                SecretSource::Env(_) | SecretSource::Command(_) => None,
            })
            .collect();
        act(&CredentialGuard {
            host: self.cx.host(),
            workdir,
            names: &names,
            secrets: &self.secret_variables(&owned),
            files: &files,
        })
    }
}
