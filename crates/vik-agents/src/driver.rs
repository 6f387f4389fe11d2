//! What Vik needs to know of each agent: one [`Driver`] per runtime.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use vik_core::workflow::{AgentProfile, Runtime, SandboxFiles};

use crate::{
    Adapter, Conclusion, InitialInput, InputMode, Launch, LaunchContext, LaunchError, LoginSign,
    PreviousTotal,
};

/// One kind of agent: how to start it, how to interpret its output, and what belongs to it.
///
/// The default of a method is the answer for a program of which nothing is known.
pub trait Driver: Sync {
    /// Returns the runtime as in the workflow file.
    fn runtime(&self) -> Runtime;

    /// Builds the command line and the environment of an agent.
    ///
    /// # Errors
    ///
    /// Returns an error if the profile cannot be expressed as a command line; see [`LaunchError`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use std::path::Path;
    ///
    /// use vik_agents::{InputMode, LaunchContext, driver};
    /// use vik_core::workflow::{AgentProfile, Runtime};
    ///
    /// let mut profile = AgentProfile::new(Runtime::Command);
    /// profile.command = vec!["my-agent".to_owned(), "fast".to_owned()];
    /// let variables = [("PATH", "/usr/bin"), ("GITHUB_TOKEN", "a secret")];
    /// let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    /// let environment = BTreeMap::from(variables.map(own));
    /// let command = driver(profile.runtime).launch(&LaunchContext {
    ///     profile: &profile,
    ///     workdir: Path::new("/tmp/issue-7"),
    ///     vik: Path::new("/usr/bin/vik"),
    ///     private_home: None,
    ///     session_id: uuid::Uuid::nil(),
    ///     resume: None,
    ///     budget: vik_core::limits::Limit::default(),
    ///     in_sandbox: false,
    ///     input: InputMode::Prompt,
    ///     scope: None,
    ///     questions: None,
    ///     extensions: None,
    ///     is_root: false,
    ///     environment: &environment,
    /// })?;
    /// assert_eq!(command.argv, ["my-agent", "fast"]);
    /// // Only listed variables reach an agent.
    /// assert!(command.env.contains_key("PATH") && !command.env.contains_key("GITHUB_TOKEN"));
    /// # Ok::<(), vik_agents::LaunchError>(())
    /// ```
    fn launch(&self, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError>;

    /// Builds the command line of the agent's own session for a person at a terminal, which
    /// continues the conversation [`LaunchContext::resume`]. The agent asks the person, so the
    /// profile's permission and budget do not apply. `None` if the agent has no such session.
    ///
    /// # Errors
    ///
    /// Returns an error if the profile cannot be expressed as a command line; see [`LaunchError`].
    fn terminal_session(&self, _: &LaunchContext<'_>) -> Result<Option<Launch>, LaunchError> {
        Ok(None)
    }

    /// Creates the adapter for one session of an agent.
    ///
    /// `previous_total` is set for a resumed conversation: Codex reports totals of the
    /// conversation, and so does Claude Code if its previous process could save them. After the
    /// attempt the conversation's total is `previous_total` plus the attempt's own usage.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_agents::{Exit, driver};
    /// use vik_core::event::Event;
    /// use vik_core::workflow::{AgentProfile, Runtime};
    ///
    /// let profile = AgentProfile::new(Runtime::Codex);
    /// let mut adapter = driver(profile.runtime).adapter(&profile, None);
    /// let mut messages = Vec::new();
    /// for line in [
    ///     r#"{"type":"turn.started"}"#,
    ///     r#"{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Done."}}"#,
    ///     r#"{"type":"turn.completed"}"#,
    /// ] {
    ///     adapter.line(line.as_bytes(), &mut |event: Event<'_>| {
    ///         if let Event::Message { text } = event {
    ///             messages.push(text.into_owned());
    ///         }
    ///     });
    /// }
    /// assert_eq!(messages, ["Done."]);
    /// // The exit code counts too, whatever the last line was.
    /// assert!(!adapter.conclude(Exit::Code(1), "").ok);
    /// ```
    fn adapter(&self, profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Box<dyn Adapter>;

    /// Creates the adapter for one session of an agent whose stdin stays open, and which gets all
    /// input on stdin, including the prompt; see [`LaunchContext::input`].
    ///
    /// # Errors
    ///
    /// Returns an error if this agent has no such input.
    fn interactive_adapter(
        &self,
        _: &AgentProfile,
        _: Option<PreviousTotal>,
        _: &InitialInput<'_>,
    ) -> Result<Box<dyn Adapter>, LaunchError> {
        Err(self.not_interactive())
    }

    /// Returns the error of an agent that has no way to ask.
    fn not_interactive(&self) -> LaunchError {
        LaunchError::NotInteractive {
            runtime: self.runtime().as_str(),
            why: "the runtime has no approval protocol",
        }
    }

    /// Returns whether people can send messages to a running agent with this profile.
    ///
    /// # Errors
    ///
    /// Returns the reason why they cannot.
    fn steering(&self, _: &AgentProfile) -> Result<(), &'static str> {
        Err("the runtime has no input for messages")
    }

    /// Returns whether an agent with this profile can write the file for questions, which is
    /// outside of the workspace. `files` is the access to the workspace that Vik's sandbox permits;
    /// `None` without this sandbox.
    fn can_write_questions(&self, _: &AgentProfile, _files: Option<SandboxFiles>, _: InputMode) -> bool {
        true
    }

    /// Returns whether the prompt must list the skills, because the agent has no option for them.
    fn needs_skill_list(&self) -> bool {
        false
    }

    /// Returns the name on PATH of the agent's own program, if it has one.
    fn default_program(&self) -> Option<&'static str> {
        None
    }

    /// Returns the program (a name on PATH, or a path) that a profile needs; `None` for the
    /// built-in agent, which is Vik's own program.
    fn program<'p>(&self, profile: &'p AgentProfile) -> Option<&'p str> {
        let own = profile.command.first().map(String::as_str);
        own.or(self.default_program())
    }

    /// Returns the command that installs the agent's own program.
    fn install_command(&self) -> Option<&'static str> {
        None
    }

    /// Returns the arguments that make the agent print its version. They follow the program's own
    /// arguments ([`AgentProfile::command`] without its first); empty if unknown.
    fn version_args(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether a scope of the agent is enforced by approving each call. An agent with flags
    /// that prevent asking is checked only at its end.
    fn enforces_scope_interactively(&self, _: &AgentProfile) -> bool {
        false
    }

    /// Returns whether the agent itself refuses calls outside of its scope.
    fn enforces_scope(&self) -> bool {
        false
    }

    /// Returns whether the agent adopts the orphans of its tools: it ends their process trees, and
    /// proves that they ended.
    fn needs_subreaper(&self) -> bool {
        false
    }

    /// Returns whether a text can be a conversation id of this agent. It comes from the agent's
    /// output and goes on a command line: with garbage, Codex would silently start a new
    /// conversation and exit with 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_agents::driver;
    /// use vik_core::workflow::Runtime;
    ///
    /// let codex = driver(Runtime::Codex);
    /// assert!(codex.is_valid_session_id("01a1ffcd-34e9-78d1-bc6d-b647a491f028"));
    /// assert!(!codex.is_valid_session_id("--last"));
    /// ```
    fn is_valid_session_id(&self, _: &str) -> bool {
        false
    }

    /// Returns phrases of an error that says that a conversation does not exist.
    fn missing_session_phrases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns why the conversation `requested_id` was not resumed; `None` if it was.
    fn resume_failure<'c>(&self, requested_id: &str, conclusion: &'c Conclusion) -> Option<Cow<'c, str>> {
        let mut phrases = self.missing_session_phrases().iter();
        let reason = conclusion.reason.as_deref().filter(|_| !conclusion.ok);
        if let Some(reason) = reason.filter(|reason| phrases.any(|phrase| reason.contains(phrase))) {
            return Some(Cow::Borrowed(reason));
        }
        let got = conclusion.provider_session_id.as_deref()?;
        (!got.eq_ignore_ascii_case(requested_id))
            .then(|| Cow::Owned(format!("the agent started another conversation, {got}")))
    }

    /// Returns the names of provider keys and settings that the agent gets.
    fn provider_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the prefixes of provider variables that the agent gets.
    fn provider_prefixes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the variables that tell the agent where to put temporary files.
    fn temporary_variables(&self) -> &'static [&'static str] {
        &["TMPDIR"]
    }

    /// Returns the variable that names the folder of the agent's settings, login and
    /// conversations.
    fn home_variable(&self) -> Option<&'static str> {
        None
    }

    /// Returns the paths of the agent's own settings, logins and conversations, which it must be
    /// able to write.
    ///
    /// `environment` is the agent's own, as in [`Launch::env`].
    fn state_paths(&self, profile: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<PathBuf>;

    /// Returns the signs of a login of this agent, of which one is enough. Empty if no login is
    /// known to be necessary.
    ///
    /// `environment` is the agent's own, as in [`Launch::env`].
    fn login_signs(&self, _: &AgentProfile, _: &BTreeMap<String, String>) -> Vec<LoginSign> {
        Vec::new()
    }

    /// Returns the signs that an agent without a [sign of a login](Self::login_signs) may have one
    /// nevertheless: another provider, or another store of logins. Without such a sign it is
    /// certainly not logged in. `None` if there is no such certainty.
    fn other_login_signs(&self, _: &AgentProfile, _: &BTreeMap<String, String>) -> Option<Vec<LoginSign>> {
        None
    }

    /// Returns the files in the agent's own folder that hold its login and that it rewrites when it
    /// refreshes its tokens.
    fn login_files(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns what a person does to log this agent in.
    fn login_hint(&self) -> Option<&'static str> {
        None
    }
}

/// Returns whether a text is a UUID in the form that agents use: not in braces, and not as a URN.
pub(crate) fn is_hyphenated_uuid(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok_and(|uuid| uuid.hyphenated().to_string().eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver;
    use crate::testing::{RUNTIMES, profile};

    const ID: &str = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";

    #[test]
    fn driver_agrees_with_what_the_workflow_knows_of_its_runtime() {
        let input = InitialInput {
            prompt: "p",
            workdir: "/ws".as_ref(),
            resume: None,
            in_sandbox: false,
            asks: true,
        };
        for runtime in RUNTIMES {
            let driver = driver(runtime);
            assert_eq!(driver.runtime(), runtime);
            assert_eq!(
                driver.is_valid_session_id(ID),
                runtime.can_resume(),
                "{runtime:?}"
            );
            let interactive = driver.interactive_adapter(&profile(runtime), None, &input);
            assert_eq!(interactive.is_ok(), runtime.can_ask(), "{runtime:?}");
            let steering = driver.steering(&profile(runtime));
            assert_eq!(steering.is_ok(), interactive.is_ok(), "{runtime:?}");
        }
    }

    #[test]
    fn valid_session_id_accepts_only_ids_of_the_runtime() {
        for runtime in RUNTIMES {
            for bad in ["", "-x", "--last", "a b", "a\n", "$(x)", "../a"] {
                assert!(!driver(runtime).is_valid_session_id(bad), "{runtime:?} {bad:?}");
            }
        }
        for bad in [
            "thread-1",
            "{01a1ffcd-34e9-78d1-bc6d-b647a491f028}",
            "01a1ffcd34e978d1bc6db647a491f028",
        ] {
            assert!(!driver(Runtime::Codex).is_valid_session_id(bad), "{bad}");
        }
    }

    #[test]
    fn resume_failure_reports_a_missing_or_other_conversation() {
        let failed = |reason: &str| Conclusion {
            reason: Some(reason.to_owned()),
            ..Conclusion::default()
        };
        let (codex, claude) = (driver(Runtime::Codex), driver(Runtime::ClaudeCode));
        let missing = failed(
            "Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)",
        );
        assert!(codex.resume_failure(ID, &missing).is_some());
        let missing = failed("No conversation found with session ID: x");
        assert!(claude.resume_failure(ID, &missing).is_some());
        assert!(
            claude
                .resume_failure(ID, &failed("the model is overloaded"))
                .is_none()
        );
        let with = |id: &str| Conclusion {
            ok: true,
            provider_session_id: Some(id.to_owned()),
            ..Conclusion::default()
        };
        assert!(codex.resume_failure(ID, &with(ID)).is_none());
        let other = with("01a1ffcd-0000-78d1-bc6d-b647a491f028");
        let why = codex.resume_failure(ID, &other);
        assert!(why.is_some_and(|why| why.contains("another conversation")));
    }

    #[test]
    fn login_signs_prefer_the_agents_folder_over_home() {
        let mut env = BTreeMap::from([("HOME".to_owned(), "/home/u".to_owned())]);
        let signs = |runtime, env: &_| driver(runtime).login_signs(&profile(runtime), env);
        let file = |env: &_| signs(Runtime::Codex, env).pop();
        assert_eq!(
            file(&env),
            Some(LoginSign::File("/home/u/.codex/auth.json".into()))
        );
        env.insert("CODEX_HOME".to_owned(), "/c".to_owned());
        assert_eq!(file(&env), Some(LoginSign::File("/c/auth.json".into())));
        assert!(signs(Runtime::Command, &env).is_empty());
    }
}
