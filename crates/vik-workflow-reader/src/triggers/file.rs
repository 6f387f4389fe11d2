//! The sections `webhooks` and `schedule` of the file.

use vik_core::duration::Span;
use vik_core::workflow::HookKind;

use super::decode::{Address, CronPattern, HeaderName, Zone};
use crate::decode::Named;
use crate::section::section;
use crate::values::{EnvName, Positive, Text};

section! {
    /// Webhooks of trackers. Each verified call triggers a pull; its content is never used. Polling
    /// continues as well.
    struct Webhooks;
    /// The address and port of the webhook server, such as `127.0.0.1:8787`. It only answers `POST
    /// /hooks/NAME`. A change requires a restart.
    "listen" listen: required Address;
    /// The minimum time between two pulls that webhooks trigger.
    "min_gap" min_gap: defaults Span = Span::secs(2);
    /// Senders by name; the name is part of the address. Names follow the rules for agent names.
    "hooks" hooks: required Named<Hook>;
    instead {
        "address" => "did you mean `listen`?",
        "port" => "did you mean `listen`? It is an address and a port, such as `127.0.0.1:8787`",
        "gap" => "did you mean `min_gap`?",
        "secret" => "a workflow file never contains secrets: name an environment variable in `hooks.NAME.secret_env`",
    }
}

section! {
    /// One sender.
    struct Hook;
    /// How the sender is verified. `github`: `X-Hub-Signature-256`. `gitlab`: `webhook-signature`
    /// if the secret is a signing token (`whsec_…`), else `X-Gitlab-Token`. `linear`:
    /// `Linear-Signature` and the time in the body. `hmac`: HMAC-SHA256 of the body as hex, with or
    /// without `sha256=`, in `header`.
    "kind" kind: required HookKind;
    /// The environment variable of the daemon that contains the secret. If it is not set, every
    /// call is rejected.
    "secret_env" secret_env: required EnvName;
    /// For `hmac`: the header with the signature.
    "header" header: optional HeaderName;
    /// For `hmac`: the header with the delivery id, which identifies duplicate calls.
    "id_header" id_header: optional HeaderName;
    instead {
        "type" => "did you mean `kind`?",
        "secret" | "token" => "a workflow file never contains secrets: name an environment variable in `secret_env`",
        "env" => "did you mean `secret_env`?",
    }
}

section! {
    /// A scheduled command or pull.
    struct Entry;
    /// The cron pattern: minute, hour, day of the month, month, day of the week (`0 3 * * *`), with
    /// an optional first field for seconds; or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    /// `@yearly`.
    "cron" cron: required CronPattern;
    /// The time zone, a name of the tz database such as `Europe/Berlin`.
    "time_zone" time_zone: defaults Zone = "UTC".to_owned();
    /// A shell command that runs like the pull command; if it succeeds, a pull follows. Exactly one
    /// of `command` and `pull: true`.
    "command" command: optional Text;
    /// Only pull the issues.
    "pull" pull: defaults bool = false;
    /// The timeout of the command.
    "timeout" timeout: defaults Positive = Span::secs(60);
    /// Whether one run replaces those that were missed while no daemon was running.
    "catch_up" catch_up: defaults bool = false;
    instead {
        "when" | "at" => "did you mean `cron`?",
        "every" => "did you mean `cron`? `*/5 * * * *` is every five minutes",
        "timezone" | "tz" | "zone" => "did you mean `time_zone`?",
        "run" | "cmd" => "did you mean `command`?",
    }
}
