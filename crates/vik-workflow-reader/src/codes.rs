//! The codes of findings.

/// The stable codes of all diagnostics of loading a workflow, each with its meaning.
pub const CODES: &[(&str, &str)] = &[
    ("bad_address", "An address is not an IP address with a port."),
    (
        "bad_alias",
        "An alias refers to itself, or aliases expand to too much data.",
    ),
    ("bad_arg", "A flag name or value in `args` is invalid."),
    ("bad_character", "The file contains a control character."),
    ("bad_cron", "A cron pattern is invalid or never matches."),
    ("bad_duration", "A duration is invalid, negative or too long."),
    (
        "bad_engine",
        "The address, the task queue, a secret or the client certificate of `engine` is invalid, or this build of vik has no \
         such engine.",
    ),
    ("bad_env_name", "The name of an environment variable is invalid."),
    ("bad_glob", "A glob of a scope or an allow-list is invalid."),
    ("bad_header", "The name of an HTTP header is invalid."),
    ("bad_host", "A host name, optionally with a port, is invalid."),
    ("bad_key", "A key is a list or a map."),
    (
        "bad_mcp",
        "An MCP server or its use is invalid, such as a name, an address, a header or a tool.",
    ),
    (
        "bad_merge",
        "The value of a merge key `<<` is not a map or a list of maps.",
    ),
    (
        "bad_name",
        "A name, such as that of a stage or an agent, is invalid.",
    ),
    (
        "bad_path",
        "A path contains a variable or the home directory of another user, or `..` in a sandbox.",
    ),
    (
        "bad_secret",
        "A secret has an invalid name, or not exactly one source.",
    ),
    ("bad_size", "An amount of bytes is invalid or too large."),
    ("bad_tag", "A YAML tag is unknown."),
    ("bad_text", "A string contains an invalid character, such as NUL."),
    ("bad_time", "A time of day is invalid."),
    (
        "bad_where",
        "A label in `where` is invalid, or `where` is used without an `engine`.",
    ),
    (
        "bool_word",
        "`yes`, `no`, `on` or `off` is a string in YAML 1.2; probably `true` or `false` was intended.",
    ),
    (
        "cannot_ask",
        "`approve.calls` is set for an agent whose calls cannot be approved.",
    ),
    ("dashed_arg", "A flag in `args` is written with dashes."),
    ("duplicate_key", "A map contains the same key twice."),
    (
        "duplicate_state",
        "A state is listed twice, or belongs to a stage with several states and to another stage.",
    ),
    (
        "durable_workspace",
        "`workspace.durable` is set without `issue.hooks.after_create`.",
    ),
    ("empty", "The file contains no workflow."),
    ("empty_value", "A required value is empty."),
    (
        "mcp_network",
        "The sandbox of a stage does not permit the address of one of its MCP servers.",
    ),
    (
        "mcp_sandbox",
        "An MCP server with `sandbox: own` is used in a stage without a sandbox, or with `unix_sockets`.",
    ),
    (
        "mcp_secret",
        "The command line or a variable of an MCP server contains a secret, or names one.",
    ),
    (
        "mcp_without_tools",
        "Agents may call no tool of an MCP server that they get.",
    ),
    ("missing_key", "A required key is missing."),
    (
        "multiple_documents",
        "The file contains more than one YAML document.",
    ),
    ("no_agents", "No agent profile is defined."),
    (
        "no_extensions",
        "The runtime of an agent cannot get MCP servers or skills.",
    ),
    (
        "no_price",
        "A limit in USD applies to an agent that reports no cost and has no price.",
    ),
    ("no_stages", "No stage is defined."),
    (
        "open_listener",
        "The webhook server accepts unencrypted connections from other machines.",
    ),
    ("out_of_range", "A number or duration is too small or too large."),
    (
        "output_credential",
        "The agent of a stage with `outputs` gets a credential of a tracker or a git remote.",
    ),
    (
        "output_permission",
        "The agent of a stage with `outputs` has no tool that can write them.",
    ),
    (
        "output_sandbox",
        "The agent of a stage with `outputs` has no sandbox, or one that permits Unix sockets.",
    ),
    (
        "parallel_writers",
        "Two agents with write access can run in one workspace at the same time.",
    ),
    (
        "prompt_source",
        "A stage needs exactly one of `prompt` and `prompt_file`.",
    ),
    (
        "schedule_job",
        "An entry of the schedule needs exactly one of `command` and `pull: true`.",
    ),
    (
        "shared_state",
        "Two stages take the same issues in one state, and run one after the other.",
    ),
    (
        "start_state",
        "`start_state` is none of the states of its stage, or there is no `issues.tracker`.",
    ),
    ("syntax", "The file is not valid YAML."),
    ("terminal_stage", "A stage takes issues in a terminal state."),
    ("too_deep", "The file is nested too deeply."),
    ("too_large", "The file is too large."),
    ("too_many", "There are more diagnostics than Vik prints."),
    (
        "tracker_command",
        "`issues.tracker` is set together with a command that it replaces, or an output has a `check` without `run`.",
    ),
    (
        "unknown_agent",
        "A stage names an agent profile that does not exist.",
    ),
    (
        "unknown_key",
        "A key is unknown. Vik ignores it, except in sections that protect something, where it is an error: `sandbox`, `approve`, `outputs`, `intent`, `trust`, `secrets`, `limits`.",
    ),
    ("unknown_mcp", "A listed MCP server is not defined."),
    ("unknown_runtime", "A runtime is unknown."),
    ("unknown_secret", "A listed secret is not defined."),
    (
        "unknown_time_zone",
        "No time zone of the tz database has this name.",
    ),
    ("unknown_value", "A value is not one of the permitted ones."),
    ("unused_agent", "An agent profile is not used by any stage."),
    (
        "unused_key",
        "A key has no effect in combination with the others.",
    ),
    ("unused_mcp", "An MCP server is not used by any agent."),
    ("unused_secret", "A secret is not used."),
    (
        "webhook_url",
        "A webhook needs exactly one of `url` and `url_env`, with an `http` or `https` address.",
    ),
    ("wrong_type", "A value has the wrong type."),
];
