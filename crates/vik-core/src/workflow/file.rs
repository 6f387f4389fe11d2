//! The contents of `workflow.yml`: each key with its type, default and meaning.

use super::amounts::{Amount, Attempts, Memory, Percent, SlotLimit, TokenLimit, Tokens, Usd, UsdLimit};
use super::approve::Approve;
use super::args::Args;
use super::decode::Named;
use super::intent::{Intent, ScopeConflicts, Trust};
use super::model::{
    ArgsStyle, Home, LogFormat, OnStateChange, OutputFormat, Permission, RemoveWorkspace, Runtime,
    SandboxChoice,
};
use super::notify::Notify;
use super::outputs::Outputs;
use super::secrets::Secret;
use super::section::section;
use super::triggers::file::{Entry, Webhooks};
use super::values::{CommandLine, Count, Env, EnvNames, PathText, Positive, States, Text, Whole};
use crate::duration::Span;
use crate::money::MicroUsd;

section! {
    /// The policy of one Vik daemon: which issues it takes, and which agent does what with them.
    struct File;
    /// How much runs at once.
    "loop" looping: section Loop;
    /// Where Vik keeps what belongs to this workflow. Without this section that is `.vik` beside
    /// the workflow file.
    "workspace" workspace: section Workspace;
    /// What may be spent in one day, from midnight to midnight UTC, on all issues together. When it
    /// is spent, nothing starts until the next day.
    "limits" limits: section DayLimits;
    /// Agent profiles by name: a program and its settings. A name has 1 to 64 of the characters
    /// `A-Z a-z 0-9 . _ -` and does not begin with a dot.
    "agents" agents: required Named<Agent>;
    /// How issues come in.
    "issues" issues: section Issues;
    /// What happens to each issue.
    "issue" issue: section Issue;
    /// Trackers that tell when something changed: each verified call makes Vik look at the issues
    /// at once. What a call says is never used. Polling goes on beside it.
    "webhooks" webhooks: optional Webhooks;
    /// What is due at certain times, by name: a command that makes an issue, or a pull. Nothing
    /// runs while everything is paused or draining, and none with `run --once`. Names are as those
    /// of agents.
    "schedule" schedule: optional Named<Entry>;
    /// Whose issues are trusted. Without this section all are.
    "trust" trust: optional Trust;
    /// Secrets by name, which is also the name of the variable that holds one. Who gets one lists
    /// it under `secrets`: an agent, hooks, the pull command. Values stand in no file of Vik's, and
    /// are masked wherever Vik writes or shows text.
    "secrets" secrets: optional Named<Secret>;
    /// Log files of the daemon.
    "logging" logging: section Logging;
    /// Who is told what happens: notifiers by name. Names are as those of agents.
    "notify" notify: optional Named<Notify>;
    instead {
        "notifications" => "did you mean `notify`?",
        "webhook" => "did you mean `webhooks`?",
        "cron" => "did you mean `schedule`?",
        "schedules" => "did you mean `schedule`?",
        "agent" => "profiles stand under `agents`",
        "profiles" => "profiles stand under `agents`",
        "stages" => "stages stand under `issue.stages`",
        "hooks" => "hooks stand under `issue.hooks` and `issue.stages.NAME.hooks`",
        "pull" => "this stands under `issues.pull`",
        "tracker" => "the tracker is what `issues.pull.command` asks",
        "secret" => "did you mean `secrets`?",
        "env" => "variables stand under `agents.NAME.env`, secrets under `secrets`",
        "log" => "this stands under `logging`",
        "budget" => "did you mean `limits`?",
        "budgets" => "did you mean `limits`?",
    }
}

section! {
    /// How much runs at once.
    struct Loop;
    /// How many distinct issues are worked on at once.
    "max_issue_concurrency" max_issue_concurrency: defaults Count = Whole(10);
    /// How many pulls are made; null is until shutdown.
    "max_iterations" max_iterations: optional Whole<1, { u64::MAX }>;
    /// How long an agent lives on without a daemon, so that the next one can take it up again. When
    /// it is not written: 10m for a daemon in the background, 0 for one in the foreground.
    "orphan_grace" orphan_grace: optional Span;
    /// Nothing more starts while the machine is short of memory; what runs goes on.
    "pressure" pressure: section Pressure;
    instead {
        "wait_ms" => "the wait between two pulls is `issues.pull.idle_sec`",
        "wait" => "the wait between two pulls is `issues.pull.idle_sec`",
        "idle_sec" => "the wait between two pulls is `issues.pull.idle_sec`",
        "interval" => "the wait between two pulls is `issues.pull.idle_sec`",
        "max_concurrency" => "did you mean `max_issue_concurrency`?",
        "concurrency" => "did you mean `max_issue_concurrency`?",
    }
}

section! {
    /// Nothing more starts while the machine is short of memory; what runs goes on.
    struct Pressure;
    /// The least memory that must be available, such as `512MiB` or `2GiB`.
    "min_available_memory" min_available_memory: optional Memory;
    /// The most memory pressure, in percent: how much of the last ten seconds some program waited
    /// for memory. Known on Linux with PSI only.
    "max_memory_pressure" max_memory_pressure: optional Percent;
    instead {
        "memory" => "did you mean `min_available_memory`?",
        "min_memory" => "did you mean `min_available_memory`?",
    }
}

section! {
    /// What may be spent in one day, from midnight to midnight UTC, on all issues together. When it
    /// is spent, nothing starts until the next day.
    struct DayLimits: strict;
    /// Money, in USD; null is without limit.
    "usd_per_day" usd_per_day: optional UsdLimit;
    /// Input and output tokens together; null is without limit.
    "tokens_per_day" tokens_per_day: optional TokenLimit;
    instead {
        "usd" => "did you mean `usd_per_day`? The limits of one issue stand under `issue.limits`",
        "tokens" => "did you mean `tokens_per_day`? The limits of one issue stand under `issue.limits`",
        "attempts" => "this stands under `issue.limits.attempts`",
        "daily_usd" => "did you mean `usd_per_day`?",
    }
}

section! {
    /// Where Vik keeps what belongs to this workflow.
    struct Workspace;
    /// The home folder, relative to the workflow file; `~/` is the home directory. When the section
    /// is there and this is null: `VIK_HOME`, else `~/.vik`.
    "root" root: optional PathText;
    instead {
        "path" => "did you mean `root`?",
        "dir" => "did you mean `root`?",
        "home" => "did you mean `root`?",
    }
}

section! {
    /// One agent profile.
    struct Agent;
    /// Which agent it is, and so which adapter speaks to it.
    "runtime" runtime: required Runtime;
    /// The model; required but for the runtime `command`.
    "model" model: optional Text;
    /// Extra flags for the agent's command line, without their dashes; a name of one letter gets
    /// one dash. `true` is the bare flag, `false` none; numbers are passed as written; for lists
    /// see `args_style`.
    "args" args: defaults Args = Args::default();
    /// How a list in `args` becomes flags. Default: `repeat` for codex, `join` for the others.
    "args_style" args_style: optional ArgsStyle;
    /// What the agent may do without being asked; mapped to each agent's own switches.
    "permission" permission: defaults Permission = Permission::WorkspaceWrite;
    /// What the agent may reach, upheld by the operating system for all that it starts. On where
    /// nothing is written; `off` is the way out.
    "sandbox" sandbox: optional SandboxChoice;
    /// The program and its arguments, such as `[my-agent, --flag]`: required for the runtime
    /// `command`, which gets the prompt on stdin; elsewhere it replaces the name of the program.
    "command" command: defaults CommandLine = CommandLine::default();
    /// What an agent of the runtime `command` prints.
    "output" output: defaults OutputFormat = OutputFormat::Text;
    /// Variables for the agent, beside those of the documented allow-list.
    "env" env: defaults Env = Env::default();
    /// Names of variables of the daemon that the agent gets too.
    "env_pass" env_pass: defaults EnvNames = EnvNames::default();
    /// Names of secrets that the agent gets, each in the variable of its name.
    "secrets" secrets: defaults EnvNames = EnvNames::default();
    /// Whether `CODEX_HOME` and the like are the user's own or a folder of Vik's.
    "home" home: defaults Home = Home::User;
    /// Prices in USD per million tokens, used where the agent reports no cost.
    "price" price: optional Price;
    /// For the runtime `vex`: the provider of the model: `anthropic`, `openai`, `openrouter`,
    /// `ollama`, `local`, `replay`, or one of vex's settings.
    "provider" provider: optional Text;
    /// The address of the model API, in place of the agent's own; for `vex` with `provider: replay`
    /// the folder of the recordings.
    "base_url" base_url: optional Text;
    /// How many attempts of this profile run at once; null is without limit.
    "max_concurrency" max_concurrency: optional SlotLimit;
    /// What an attempt is charged that failed or was cut off after the model's first answer,
    /// without reporting what it used. With the runtime `command`: nothing unless it is written.
    "estimate" estimate: section Estimate;
    instead {
        "type" => "did you mean `runtime`?",
        "adapter" => "did you mean `runtime`?",
        "flags" => "did you mean `args`?",
        "environment" => "did you mean `env`?",
        "approval" => "did you mean `permission`?",
        "permissions" => "did you mean `permission`?",
        "concurrency" => "did you mean `max_concurrency`?",
    }
}

section! {
    /// Prices in USD per million tokens.
    struct Price;
    /// Fresh input tokens.
    "input" input: defaults Amount = Amount(0.0);
    /// Input tokens read from the cache.
    "cached_input" cached_input: defaults Amount = Amount(0.0);
    /// Input tokens written to the cache.
    "cache_write" cache_write: defaults Amount = Amount(0.0);
    /// Output tokens.
    "output" output: defaults Amount = Amount(0.0);
}

section! {
    /// What an attempt is charged that failed or was cut off after the model's first answer,
    /// without reporting what it used. With the runtime `command`: nothing unless it is written.
    struct Estimate;
    /// Money, in USD.
    "usd" usd: defaults Usd = Usd(MicroUsd(500_000));
    /// Input and output tokens together.
    "tokens" tokens: defaults Tokens = Whole(100_000);
}

section! {
    /// How issues come in.
    struct Issues;
    /// The command that takes a snapshot of the issues.
    "pull" pull: section Pull;
    /// The command that looks at one issue again.
    "show" show: section Show;
    instead {
        "command" => "this stands under `issues.pull.command`",
        "idle_sec" => "this stands under `issues.pull.idle_sec`",
        "stages" => "stages stand under `issue.stages`",
        "hooks" => "hooks stand under `issue.hooks`",
    }
}

section! {
    /// The command that takes a snapshot of the issues.
    struct Pull;
    /// A shell command that prints a JSON array of issues. It runs in the folder of the workflow
    /// file.
    "command" command: required Text;
    /// Names of secrets that the command gets.
    "secrets" secrets: defaults EnvNames = EnvNames::default();
    /// How long to wait between two pulls: a number of seconds, or a duration.
    "idle_sec" idle_sec: defaults Positive = Positive(Span::secs(5));
    /// How long a pull may take.
    "timeout" timeout: defaults Positive = Positive(Span::secs(60));
    instead {
        "idle" => "did you mean `idle_sec`?",
        "wait_ms" => "did you mean `idle_sec`?",
        "interval" => "did you mean `idle_sec`?",
        "poll_interval" => "did you mean `idle_sec`?",
        "cmd" => "did you mean `command`?",
        "run" => "did you mean `command`?",
    }
}

section! {
    /// The command that looks at one issue again: right before an agent starts for it, and when a
    /// pull no longer brings it.
    struct Show;
    /// A shell command, a template that knows `issue.id` only. It prints the issue as JSON, or
    /// `null` when it is gone; when it fails, nothing is known. It runs in the folder of the
    /// workflow file.
    "command" command: optional Text;
    /// Names of secrets that the command gets.
    "secrets" secrets: defaults EnvNames = EnvNames::default();
    /// How long it may take.
    "timeout" timeout: defaults Positive = Positive(Span::secs(30));
    instead {
        "cmd" => "did you mean `command`?",
        "run" => "did you mean `command`?",
    }
}

section! {
    /// What happens to each issue.
    struct Issue;
    /// Shell commands around the life of an issue's workspace.
    "hooks" hooks: section IssueHooks;
    /// Stages by name. The stages of one issue run one at a time, in the order of the file. Names
    /// are as those of agents.
    "stages" stages: required Named<Stage>;
    /// States in which an issue is done with; upper and lower case matter. What still runs for it
    /// gets `terminal_grace` to end, then its workspace goes as `remove_workspace` says.
    "terminal_states" terminal_states: defaults States = States::default();
    /// How long a run may go on after its issue reached a terminal state.
    "terminal_grace" terminal_grace: defaults Span = Span::secs(60);
    /// What happens to the workspace of an issue in a terminal state. `clean`: it goes when it is
    /// empty, or a git work tree with nothing uncommitted or unpushed.
    "remove_workspace" remove_workspace: defaults RemoveWorkspace = RemoveWorkspace::Clean;
    /// What may be spent on one issue in its whole life, over all its stages and runs.
    "limits" limits: section IssueLimits;
    /// Whether two issues whose scopes may overlap run at once: `serialize`, they do not; `allow`,
    /// they may. An issue without a scope claims nothing.
    "scope_conflicts" scope_conflicts: defaults ScopeConflicts = ScopeConflicts::Serialize;
    instead {
        "pull" => "this stands under `issues.pull`",
        "stage" => "did you mean `stages`?",
        "after_create" => "this stands under `issue.hooks.after_create`",
        "before_remove" => "this stands under `issue.hooks.before_remove`",
        "closed_states" => "did you mean `terminal_states`?",
        "done_states" => "did you mean `terminal_states`?",
    }
}

section! {
    /// What may be spent on one issue in its whole life, over all its stages and runs.
    struct IssueLimits: strict;
    /// How often agents are started for it.
    "attempts" attempts: defaults Attempts = Attempts(15);
    /// Money, in USD; null is without limit.
    "usd" usd: optional UsdLimit;
    /// Input and output tokens together; null is without limit.
    "tokens" tokens: optional TokenLimit;
    instead {
        "max_attempts" => "did you mean `attempts`?",
        "usd_per_day" => "this stands under `limits.usd_per_day`, beside `issue`",
        "tokens_per_day" => "this stands under `limits.tokens_per_day`, beside `issue`",
    }
}

section! {
    /// Shell commands around the life of an issue's workspace.
    struct IssueHooks;
    /// Runs once in each workspace that was just created.
    "after_create" after_create: optional Text;
    /// Runs before a workspace is removed.
    "before_remove" before_remove: optional Text;
    /// Names of secrets that these commands get.
    "secrets" secrets: defaults EnvNames = EnvNames::default();
    /// How long each of them may take.
    "timeout" timeout: defaults Positive = Positive(Span::mins(5));
    /// Whether they run in the sandbox of an agent without settings of its own, with the workspace
    /// writable. Default: false.
    "sandbox" sandbox: defaults bool = false;
    instead {
        "before_run" => "this stands under `issue.stages.NAME.hooks.before_run`",
        "after_run" => "this stands under `issue.stages.NAME.hooks.after_run`",
    }
}

section! {
    /// One stage: a named step that takes the issues of one state to one agent.
    struct Stage;
    /// Which issues it takes.
    "when" when: section When;
    /// The name of the agent profile.
    "agent" agent: required Text;
    /// The sandbox of this stage: what is written here counts before what its agent's profile says.
    "sandbox" sandbox: optional SandboxChoice;
    /// The file with the prompt, relative to the workflow file. Exactly one of `prompt_file` and
    /// `prompt`.
    "prompt_file" prompt_file: optional PathText;
    /// The prompt itself. Exactly one of `prompt_file` and `prompt`.
    "prompt" prompt: optional Text;
    /// Shell commands around each attempt.
    "hooks" hooks: section StageHooks;
    /// What attempts of this stage are to do, and where.
    "intent" intent: section Intent;
    /// What waits for a person: the start, the result, or calls of the agent.
    "approve" approve: optional Approve;
    /// What agents of this stage may ask for. They get no credential of a tracker or a git remote
    /// then: they write to a file what they want done outside of the workspace, and Vik checks it
    /// and does it by these commands.
    "outputs" outputs: optional Outputs;
    /// A shell command that Vik runs in the workspace after the agent says it is done. When it
    /// fails, so did the attempt, and the end of its output goes into the next one.
    "verify" verify: optional Text;
    /// How long an attempt may take.
    "timeout" timeout: defaults Positive = Positive(Span::mins(60));
    /// How long an agent may be silent; the clock stands still while a tool call is open.
    "stall_timeout" stall_timeout: defaults Positive = Positive(Span::mins(10));
    /// How long one tool call may stay open.
    "tool_timeout" tool_timeout: defaults Positive = Positive(Span::mins(30));
    /// How often and how soon a failed attempt is tried again.
    "retry" retry: section Retry;
    /// What one attempt may spend. It is stopped where its agent reports in time, and is over then
    /// in any case.
    "limits" limits: section StageLimits;
    /// How many attempts of this stage run at once; null is without limit.
    "max_concurrency" max_concurrency: optional SlotLimit;
    /// Whether it may run beside another stage of the same issue, in the same workspace.
    "parallel" parallel: defaults bool = false;
    /// What happens to an attempt whose issue leaves the state: it goes on to its end, or it is
    /// stopped.
    "on_state_change" on_state_change: defaults OnStateChange = OnStateChange::Finish;
    /// Whether an attempt that was cut off goes on in the same session of its agent.
    "resume" resume: defaults bool = true;
    /// What the agent is told when it goes on; a template like the prompt. When it is not written,
    /// Vik has words of its own, with what `verify` said.
    "resume_prompt" resume_prompt: optional Text;
    instead {
        "state" => "this stands under `when.state`",
        "before_run" => "this stands under `hooks.before_run`",
        "after_run" => "this stands under `hooks.after_run`",
        "max_attempts" => "this stands under `retry.max_attempts`",
        "retries" => "this stands under `retry.max_attempts`",
        "model" => "the model stands in the agent profile, `agents.NAME.model`",
        "runtime" => "the runtime stands in the agent profile, `agents.NAME.runtime`",
        "name" => "the name of a stage is its key",
        "concurrency" => "did you mean `max_concurrency`?",
        "budget" => "did you mean `limits`?",
        "owned_scope" => "this stands under `intent.owned_scope`",
        "scope" => "this stands under `intent.owned_scope`",
        "constraints" => "this stands under `intent.constraints`",
        "acceptance" => "this stands under `intent.acceptance`",
        "on_violation" => "this stands under `intent.on_violation`",
        "output" => "did you mean `outputs`?",
        "safe_outputs" => "did you mean `outputs`?",
        "safe-outputs" => "did you mean `outputs`?",
    }
}

section! {
    /// What one attempt may spend. It is stopped where its agent reports in time, and is over then
    /// in any case.
    struct StageLimits: strict;
    /// Money, in USD; null is without limit.
    "usd" usd: optional UsdLimit;
    /// Input and output tokens together; null is without limit.
    "tokens" tokens: optional TokenLimit;
    instead {
        "attempts" => "this stands under `retry.max_attempts`, and for the issue's whole life under `issue.limits.attempts`",
        "max_attempts" => "this stands under `retry.max_attempts`",
        "usd_per_day" => "this stands under `limits.usd_per_day`, at the top of the file",
        "tokens_per_day" => "this stands under `limits.tokens_per_day`, at the top of the file",
    }
}

section! {
    /// Which issues a stage takes.
    struct When;
    /// The state of the issue; upper and lower case matter.
    "state" state: required Text;
    instead {
        "states" => "a stage takes one state: `state`",
        "status" => "did you mean `state`?",
    }
}

section! {
    /// Shell commands around each attempt.
    struct StageHooks;
    /// Runs before the agent; when it fails, the agent is not started.
    "before_run" before_run: optional Text;
    /// Runs after every end but a cancellation; when it fails, the outcome stays.
    "after_run" after_run: optional Text;
    /// Names of secrets that these commands get, `verify` and the commands in the prompt too.
    "secrets" secrets: defaults EnvNames = EnvNames::default();
    /// How long each of them may take.
    "timeout" timeout: defaults Positive = Positive(Span::mins(5));
    /// Whether they run in the sandbox of the stage, with the workspace writable, and the commands
    /// in the prompt too. `verify` always does.
    "sandbox" sandbox: defaults bool = false;
    instead {
        "after_create" => "this stands under `issue.hooks.after_create`",
        "verify" => "this stands in the stage, beside `hooks`",
    }
}

section! {
    /// How often and how soon a failed attempt is tried again.
    struct Retry;
    /// How often the agent is started before the issue is parked at this stage.
    "max_attempts" max_attempts: defaults Count = Whole(3);
    /// The wait after the first failure; it doubles with each further one.
    "initial_backoff" initial_backoff: defaults Span = Span::secs(10);
    /// The longest wait.
    "max_backoff" max_backoff: defaults Span = Span::mins(5);
    instead {
        "attempts" => "did you mean `max_attempts`?",
        "backoff" => "did you mean `initial_backoff`?",
        "delay" => "did you mean `initial_backoff`?",
    }
}

section! {
    /// Log files of the daemon.
    struct Logging;
    /// How many days log files are kept.
    "retention_days" retention_days: defaults Whole<1, 36500> = Whole(7);
    /// How lines are written, in the files and with `-v` on stderr: `json` is one object a line.
    "format" format: defaults LogFormat = LogFormat::Text;
    instead {
        "retention" => "did you mean `retention_days`?",
        "days" => "did you mean `retention_days`?",
    }
}
