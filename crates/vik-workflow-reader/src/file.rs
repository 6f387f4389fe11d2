//! The contents of `workflow.yml`: each key with its type, default and meaning.

use vik_core::duration::Span;
use vik_core::limits::Limit;
use vik_core::workflow::{
    self, HandOverRetry, KeepTime, LogFormat, OnStateChange, QuestionPolicy, RemoveWorkspace, ResumePolicy,
    SandboxChoice, ScopeConflicts,
};

use super::agent::Agent;
use super::amounts::{Attempts, Memory, Percent, SlotLimit, TokenLimit, UsdLimit};
use super::approve::Approve;

use super::decode::Named;
use super::durable::Durable;
use super::engine::{Engine, Where};
use super::http::Http;
use super::intent::{Intent, Trust};
use super::mcp::Mcp;
use super::notify::Notify;
use super::outputs::Outputs;
use super::retention::{Retention, UNLISTED_AFTER, Unlisted};
use super::sandbox::Paths;
use super::secrets::Secret;
use super::section::section;
use super::tracker::Tracker;
use super::triggers::file::{Entry, Webhooks};
use super::values::{Count, EnvNames, Labels, PathText, Positive, States, Text, Texts, Whole};
use super::when::OneOrMoreStates;

section! {
    /// The policy of one Vik daemon: which issues it takes, and which agents work on them.
    struct File;
    /// Limits of the scheduling loop.
    "loop" looping: section Loop;
    /// Where Vik keeps the files of this workflow. Default: `.vik` next to the workflow file.
    "workspace" workspace: section Workspace;
    /// The limits of one day (UTC) for all issues together. When one is reached, no attempt starts
    /// until the next day.
    "limits" limits: section DayLimits;
    /// Agent profiles by name: a program and its settings. A name has 1 to 64 of the characters
    /// `A-Z a-z 0-9 . _ -` and does not begin with a dot.
    "agents" agents: required Named<Agent>;
    /// How Vik gets the issues.
    "issues" issues: section Issues;
    /// How Vik works on each issue.
    "issue" issue: section Issue;
    /// What coordinates several machines that work on one queue of issues. Only a Vik that was built
    /// with the feature `temporal` runs a workflow with it. Without it, all work is done on this
    /// machine. A change requires a restart.
    "engine" engine: optional Engine;
    /// The dashboard and the HTTP API on TCP. Requests need the token or a sign-in. Not used with
    /// `run --once`. A change requires a restart.
    "http" http: optional Http;
    /// Webhooks of trackers. Each verified call triggers a pull; its content is never used. Polling
    /// continues as well.
    "webhooks" webhooks: optional Webhooks;
    /// Scheduled commands and pulls by name, for example a command that creates an issue. Nothing
    /// runs while Vik is paused or draining, or with `run --once`. Names follow the rules for agent
    /// names.
    "schedule" schedule: optional Named<Entry>;
    /// Which issues are trusted. Default: all.
    "trust" trust: optional Trust;
    /// Secrets by name. The name is also the name of the environment variable. Only parts that list
    /// a secret in their `secrets` get it: agents, hooks, the pull command. Vik writes values to no
    /// file and masks them in all output.
    "secrets" secrets: optional Named<Secret>;
    /// Servers of the Model Context Protocol by name, whose tools agents can call. Profiles and stages
    /// select some with `mcp`. A name has 1 to 32 of the characters `a-z 0-9 -`.
    "mcp" mcp: optional Named<Mcp>;
    /// How long Vik keeps what it stores: `keep` (forever) or a duration. Applied while the daemon
    /// runs. The counters of issues and days, what is parked, and what belongs to a running or
    /// waiting attempt are never removed.
    "retention" retention: section Retention;
    /// Log files of the daemon.
    "logging" logging: section Logging;
    /// Notifiers by name. Names follow the rules for agent names.
    "notify" notify: optional Named<Notify>;
    instead {
        "temporal" => "use `engine.temporal`",
        "notifications" => "did you mean `notify`?",
        "webhook" => "did you mean `webhooks`?",
        "mcp_servers" | "mcpServers" => "did you mean `mcp`?",
        "skills" => "list skills in `agents.NAME.skills` or `issue.stages.NAME.skills`",
        "api" | "dashboard" | "server" => "did you mean `http`?",
        "cron" | "schedules" => "did you mean `schedule`?",
        "agent" | "profiles" => "define profiles in `agents`",
        "stages" => "define stages in `issue.stages`",
        "hooks" => "define hooks in `issue.hooks` or `issue.stages.NAME.hooks`",
        "pull" => "use `issues.pull`",
        "tracker" => "use `issues.tracker`, or define how to query the tracker in `issues.pull.command`",
        "secret" => "did you mean `secrets`?",
        "env" => "define variables in `agents.NAME.env` and secrets in `secrets`",
        "log" => "use `logging`",
        "budget" | "budgets" => "did you mean `limits`?",
    }
}

section! {
    /// Limits of the scheduling loop.
    struct Loop;
    /// The maximum number of issues that are worked on at the same time.
    "max_issue_concurrency" max_issue_concurrency: defaults Count = 10;
    /// The number of pulls before the daemon exits; null for no limit.
    "max_iterations" max_iterations: optional Whole<u64, 1, { u64::MAX }>;
    /// How long an agent continues without a daemon, so that the next daemon can adopt it. Default:
    /// 10m for a detached daemon, 0 for one in the foreground.
    "orphan_grace" orphan_grace: optional Span;
    /// Memory thresholds beyond which no attempt starts. Running attempts continue.
    "pressure" pressure: section Pressure;
    instead {
        "wait_ms" | "wait" | "idle_sec" | "interval" => "set the wait between two pulls in `issues.pull.idle_sec`",
        "max_concurrency" | "concurrency" => "did you mean `max_issue_concurrency`?",
    }
}

section! {
    /// Memory thresholds beyond which no attempt starts. Running attempts continue.
    struct Pressure => workflow::Pressure;
    /// The minimum of available memory, such as `512MiB` or `2GiB`.
    "min_available_memory" min_available_memory: optional Memory;
    /// The maximum memory pressure in percent: the share of the last ten seconds in which some
    /// program waited for memory. Requires Linux with PSI.
    "max_memory_pressure" max_memory_pressure: optional Percent;
    instead {
        "memory" | "min_memory" => "did you mean `min_available_memory`?",
    }
}

section! {
    /// The limits of one day (UTC) for all issues together. When one is reached, no attempt starts
    /// until the next day.
    struct DayLimits: strict => Limit;
    /// Money in USD; null for no limit.
    "usd_per_day" usd: optional UsdLimit;
    /// Input and output tokens together; null for no limit.
    "tokens_per_day" tokens: optional TokenLimit;
    instead {
        "usd" => "did you mean `usd_per_day`? The limits of one issue are set in `issue.limits`",
        "tokens" => "did you mean `tokens_per_day`? The limits of one issue are set in `issue.limits`",
        "attempts" => "use `issue.limits.attempts`",
        "daily_usd" => "did you mean `usd_per_day`?",
    }
}

section! {
    /// Where Vik keeps the files of this workflow.
    struct Workspace;
    /// The home folder, relative to the workflow file; `~/` is the home directory. If the section
    /// exists and this is null: `VIK_HOME`, else `~/.vik`.
    "root" root: optional PathText;
    /// Whether the work of each workspace is saved to a git remote after each attempt, so that it can
    /// continue on another machine: `true`, or a map with the remote. Stages with `parallel` do not
    /// save. Default: false.
    "durable" durable: optional Durable;
    instead {
        "remote" => "use `workspace.durable.remote`",
        "path" | "dir" | "home" => "did you mean `root`?",
    }
}

section! {
    /// How Vik gets the issues.
    struct Issues;
    /// The tracker: `files`, `github`, or a map with the `command` of a program that speaks the
    /// [tracker protocol](tracker-protocol.md). It replaces the commands of `pull` and `show`, and
    /// carries out `outputs` that have no `run`.
    "tracker" tracker: optional Tracker;
    /// The command that lists the issues.
    "pull" pull: section Pull;
    /// The command that reads one issue again.
    "show" show: section Show;
    instead {
        "command" => "use `issues.pull.command`",
        "idle_sec" => "use `issues.pull.idle_sec`",
        "stages" => "define stages in `issue.stages`",
        "hooks" => "define hooks in `issue.hooks`",
    }
}

section! {
    /// The command that lists the issues.
    struct Pull;
    /// A shell command that prints a JSON array of issues. It runs in the folder of the workflow
    /// file.
    /// Required without `issues.tracker`.
    "command" command: optional Text;
    /// Names of secrets that are passed to the command.
    "secrets" secrets: defaults EnvNames = Vec::new();
    /// The wait between two pulls: a number of seconds, or a duration. It grows while pulls fail.
    "idle_sec" idle_sec: defaults Positive = Span::secs(5);
    /// The timeout of a pull.
    "timeout" timeout: defaults Positive = Span::secs(60);
    instead {
        "idle" | "wait_ms" | "interval" | "poll_interval" => "did you mean `idle_sec`?",
        "cmd" | "run" => "did you mean `command`?",
    }
}

section! {
    /// The command that reads one issue again: before an agent starts for it, and when a pull no
    /// longer returns it.
    struct Show;
    /// A shell command; a template in which only `issue.id` is defined. It prints the issue as
    /// JSON, or `null` if the issue does not exist; if it fails, the state of the issue is unknown.
    /// It runs in the folder of the workflow file.
    "command" command: optional Text;
    /// Names of secrets that are passed to the command. Default with `issues.tracker`: those of
    /// `issues.pull.secrets`.
    "secrets" secrets: defaults EnvNames = Vec::new();
    /// The timeout of the command.
    "timeout" timeout: defaults Positive = Span::secs(30);
    instead {
        "cmd" | "run" => "did you mean `command`?",
    }
}

section! {
    /// How Vik works on each issue.
    struct Issue;
    /// Shell commands that run when a workspace is created or removed.
    "hooks" hooks: section IssueHooks;
    /// Stages by name. The stages of one issue run one at a time, in the order of the file. Names
    /// follow the rules for agent names.
    "stages" stages: required Named<Stage>;
    /// States in which an issue is finished; case-sensitive. Running attempts get `terminal_grace`
    /// to end, then `remove_workspace` applies to the workspace.
    "terminal_states" terminal_states: defaults States = Vec::new();
    /// How long a run may continue after its issue reached a terminal state.
    "terminal_grace" terminal_grace: defaults Span = Span::secs(60);
    /// What happens to the workspace of an issue in a terminal state. `clean`: removed if it is
    /// empty, or a git work tree with nothing uncommitted or unpushed.
    "remove_workspace" remove_workspace: defaults RemoveWorkspace = RemoveWorkspace::Clean;
    /// What happens to the workspace of an issue that pulls no longer list: `keep`, `remove`, or a
    /// map with the age. Default: `remove` after 7 days, if it contains no unsaved work. With
    /// `remove_workspace: never` it is kept.
    "unlisted" unlisted: defaults Unlisted = KeepTime::For(UNLISTED_AFTER);
    /// The limits for the life of one issue, over all of its stages and runs.
    "limits" limits: section IssueLimits;
    /// Whether two issues with overlapping scopes may run at the same time: `serialize` (no) or
    /// `allow` (yes). An issue without a scope never conflicts.
    "scope_conflicts" scope_conflicts: defaults ScopeConflicts = ScopeConflicts::Serialize;
    instead {
        "pull" => "use `issues.pull`",
        "stage" => "did you mean `stages`?",
        "after_create" => "use `issue.hooks.after_create`",
        "before_remove" => "use `issue.hooks.before_remove`",
        "closed_states" | "done_states" => "did you mean `terminal_states`?",
    }
}

section! {
    /// The limits for the life of one issue, over all of its stages and runs.
    struct IssueLimits: strict;
    /// The maximum number of attempts.
    "attempts" attempts: defaults Attempts = 15;
    /// How often an agent starts because the issue came back to a stage with `resume: issue` or
    /// `when.follow_up`. Then a person decides.
    "rounds" rounds: defaults Whole<u32, 0, 100_000> = workflow::DEFAULT_MAX_ROUNDS;
    /// Money in USD; null for no limit.
    "usd" usd: optional UsdLimit;
    /// Input and output tokens together; null for no limit.
    "tokens" tokens: optional TokenLimit;
    instead {
        "max_attempts" => "did you mean `attempts`?",
        "usd_per_day" => "use `limits.usd_per_day` at the top of the file",
        "tokens_per_day" => "use `limits.tokens_per_day` at the top of the file",
    }
}

section! {
    /// Shell commands that run when a workspace is created or removed.
    struct IssueHooks;
    /// Runs once in each new workspace.
    "after_create" after_create: optional Text;
    /// Runs before a workspace is removed.
    "before_remove" before_remove: optional Text;
    /// Names of secrets that are passed to these commands.
    "secrets" secrets: defaults EnvNames = Vec::new();
    /// The timeout of each command.
    "timeout" timeout: defaults Positive = Span::mins(5);
    /// Whether the commands run in the default sandbox, with a writable workspace. Default: false.
    "sandbox" sandbox: defaults bool = false;
    instead {
        "before_run" => "use `issue.stages.NAME.hooks.before_run`",
        "after_run" => "use `issue.stages.NAME.hooks.after_run`",
    }
}

section! {
    /// One stage: a named step that runs one agent for the issues in one state.
    struct Stage;
    /// Which issues the stage takes.
    "when" when: section When;
    /// The state that an issue gets when an attempt starts: one of the states in `when`. Requires
    /// `issues.tracker`.
    "start_state" start_state: optional Text;
    /// The name of the agent profile.
    "agent" agent: required Text;
    /// The sandbox of this stage. Its keys override those of the agent's profile.
    "sandbox" sandbox: optional SandboxChoice;
    /// The names of the MCP servers of this stage, which replace those of the agent's profile; `[]` for
    /// none.
    "mcp" mcp: optional Texts;
    /// The skills of this stage, which replace those of the agent's profile; `[]` for none.
    "skills" skills: optional Paths;
    /// The file with the prompt, relative to the workflow file. Exactly one of `prompt_file` and
    /// `prompt`.
    "prompt_file" prompt_file: optional PathText;
    /// The prompt itself. Exactly one of `prompt_file` and `prompt`.
    "prompt" prompt: optional Text;
    /// Shell commands around each attempt.
    "hooks" hooks: section StageHooks;
    /// The scope, constraints and acceptance criteria of this stage.
    "intent" intent: section Intent;
    /// What a person must approve: the start, the result, or calls of the agent.
    "approve" approve: optional Approve;
    /// How long questions of agents wait for a person. Default: without a time limit.
    "questions" questions: optional Questions;
    /// The outputs that agents of this stage may request. With this section, agents get no
    /// credentials of a tracker or git remote: they write requests to a file, which Vik checks and
    /// carries out with these commands.
    "outputs" outputs: optional Outputs;
    /// A shell command that Vik runs in the workspace after the agent reported success. If it
    /// fails, the attempt fails, and the next attempt gets the end of its output.
    "verify" verify: optional Text;
    /// The timeout of an attempt; with `turns`, of each turn.
    "timeout" timeout: defaults Positive = Span::mins(60);
    /// The maximum time without output from the agent. Open tool calls do not count.
    "stall_timeout" stall_timeout: defaults Positive = Span::mins(10);
    /// The timeout of one tool call.
    "tool_timeout" tool_timeout: defaults Positive = Span::mins(30);
    /// The number and timing of retries.
    "retry" retry: section Retry;
    /// Repeats of the outputs and of `after_run` after a success. They start no agent.
    "hand_over" hand_over: section HandOver;
    /// The limits of one attempt. It is stopped as soon as its agent reports usage beyond a limit,
    /// and ends with the outcome `over_budget`.
    "limits" limits: section StageLimits;
    /// The maximum number of attempts of this stage that run at the same time; null for no limit.
    "max_concurrency" max_concurrency: optional SlotLimit;
    /// The workers that attempts of this stage may run on. Requires `engine`.
    "where" workers: section Where;
    /// Whether the stage may run at the same time as another stage of the same issue, in the same
    /// workspace.
    "parallel" parallel: defaults bool = false;
    /// What happens to a running attempt whose issue leaves the state: it continues, or it is
    /// stopped.
    "on_state_change" on_state_change: defaults OnStateChange = OnStateChange::Finish;
    /// Which conversations attempts resume. `run`: the one of an interrupted attempt; `true` is the
    /// same. `issue`: also the last one of the stage, when the issue comes back to it; its next
    /// message is the prompt of the stage. `false`: none.
    "resume" resume: defaults ResumePolicy = ResumePolicy::Run;
    /// The prompt after an interruption; a template like `prompt`. Default: a built-in prompt that
    /// contains the output of `verify`.
    "resume_prompt" resume_prompt: optional Text;
    /// Continues the conversation of an attempt that succeeded or whose `verify` failed, as long as
    /// the issue is in the state of the stage. Default: the next attempt starts a new conversation.
    "turns" turns: optional Turns;
    instead {
        "state" => "use `when.state`",
        "before_run" => "use `hooks.before_run`",
        "after_run" => "use `hooks.after_run`",
        "max_attempts" | "retries" => "use `retry.max_attempts`",
        "model" => "set the model in the agent profile: `agents.NAME.model`",
        "runtime" => "set the runtime in the agent profile: `agents.NAME.runtime`",
        "name" => "the name of a stage is its key in `issue.stages`",
        "concurrency" => "did you mean `max_concurrency`?",
        "worker_labels" | "runs_on" | "runs-on" => "use `where.labels`",
        "budget" => "did you mean `limits`?",
        "owned_scope" | "scope" => "use `intent.owned_scope`",
        "constraints" => "use `intent.constraints`",
        "acceptance" => "use `intent.acceptance`",
        "on_violation" => "use `intent.on_violation`",
        "output" | "safe_outputs" | "safe-outputs" => "did you mean `outputs`?",
    }
}

section! {
    /// The limits of one attempt. It is stopped as soon as its agent reports usage beyond a limit,
    /// and ends with the outcome `over_budget`.
    struct StageLimits: strict => Limit;
    /// Money in USD; null for no limit.
    "usd" usd: optional UsdLimit;
    /// Input and output tokens together; null for no limit.
    "tokens" tokens: optional TokenLimit;
    instead {
        "attempts" => "use `retry.max_attempts`, or `issue.limits.attempts` for all runs of the issue",
        "max_attempts" => "use `retry.max_attempts`",
        "usd_per_day" => "use `limits.usd_per_day` at the top of the file",
        "tokens_per_day" => "use `limits.tokens_per_day` at the top of the file",
    }
}

section! {
    /// Which issues a stage takes.
    struct When: strict;
    /// The state of the issue, or a list of states; case-sensitive. All of them are one stay of the
    /// issue: moving between them starts and ends nothing.
    "state" state: required OneOrMoreStates;
    /// Further states, or one, in which an issue waits for what others say about the work, such as
    /// the state of a pull request in review. There the stage starts again only if it has worked on
    /// the issue before, and a trusted author has commented or a check has failed since.
    "follow_up" follow_up: optional OneOrMoreStates;
    /// Labels that the issue must all have, whatever their case.
    "labels" labels: defaults Labels = Vec::new();
    instead {
        "states" => "did you mean `state`? It takes a list, too",
        "status" => "did you mean `state`?",
        "label" => "did you mean `labels`?",
    }
}

section! {
    /// Shell commands around each attempt.
    struct StageHooks;
    /// Runs before the agent. If it fails, the agent is not started, and the stage is tried again. Exit
    /// code 75 asks to be tried again later and uses up no attempt.
    "before_run" before_run: optional Text;
    /// Runs after every attempt that was not cancelled. A failure does not change the outcome.
    "after_run" after_run: optional Text;
    /// Names of secrets that are passed to these commands, to `verify` and to the commands in the
    /// prompt.
    "secrets" secrets: defaults EnvNames = Vec::new();
    /// The timeout of each command.
    "timeout" timeout: defaults Positive = Span::mins(5);
    /// Whether these commands and the commands in the prompt run in the sandbox of the stage, with
    /// a writable workspace. `verify` always does.
    "sandbox" sandbox: defaults bool = false;
    instead {
        "after_create" => "use `issue.hooks.after_create`",
        "verify" => "move this key out of `hooks`, into the stage",
    }
}

section! {
    /// How long one conversation continues.
    struct Turns;
    /// The maximum number of turns of one conversation, including the first. Together they use up
    /// one attempt.
    "max" max: required Count;
    instead {
        "max_turns" => "did you mean `max`?",
    }
}

section! {
    /// The number and timing of retries.
    struct Retry => workflow::Retry;
    /// The maximum number of attempts before the stage of the issue is parked.
    "max_attempts" max_attempts: defaults Count = 3;
    /// The wait after the first failure, doubled after each further one.
    "initial_backoff" initial_backoff: defaults Span = Span::secs(10);
    /// The maximum wait.
    "max_backoff" max_backoff: defaults Span = Span::mins(5);
    instead {
        "attempts" => "did you mean `max_attempts`?",
        "backoff" | "delay" => "did you mean `initial_backoff`?",
    }
}

section! {
    /// How long questions of agents wait for a person.
    struct Questions => QuestionPolicy;
    /// After this time the default answer is given: that of the question, else `default`. A question
    /// without either waits for a person.
    "timeout" timeout: optional Positive;
    /// The answer to questions that have no default of their own.
    "default" default: optional Text;
    instead {
        "on_timeout" | "answer" => "did you mean `default`?",
    }
}

section! {
    /// Repeats of the outputs and of `after_run` after a success. They start no agent.
    struct HandOver => HandOverRetry;
    /// The maximum number of tries before the stage of the issue is parked. The first one belongs
    /// to the attempt.
    "max_tries" max_tries: defaults Count = 8;
    /// The time after the first failure within which the tries begin.
    "max_time" max_time: defaults Positive = Span::mins(120);
    /// The wait after the first failure, doubled after each further one.
    "initial_backoff" initial_backoff: defaults Span = Span::secs(15);
    /// The maximum wait.
    "max_backoff" max_backoff: defaults Span = Span::mins(30);
    instead {
        "max_attempts" | "tries" => "did you mean `max_tries`?",
        "within" => "did you mean `max_time`?",
        "delay" => "did you mean `initial_backoff`?",
    }
}

section! {
    /// Log files of the daemon.
    struct Logging;
    /// The number of days to keep log files.
    "retention_days" retention_days: defaults Whole<u32, 1, 36500> = 7;
    /// The format of log lines in files and, with `-v`, on stderr. `json`: one object per line.
    "format" format: defaults LogFormat = LogFormat::Text;
    instead {
        "retention" | "days" => "did you mean `retention_days`?",
    }
}
