//! The sections `webhooks` and `schedule` of the file.

use super::HookKind;
use super::decode::{Address, CronPattern, HeaderName, Zone};
use crate::duration::Span;
use crate::workflow::decode::Named;
use crate::workflow::section::section;
use crate::workflow::values::{EnvName, Positive, Text};

section! {
    /// Trackers that tell when something changed: each verified call makes Vik look at the issues
    /// at once. What a call says is never used. Polling goes on beside it.
    struct Webhooks;
    /// The address and port for these calls alone, such as `127.0.0.1:8787`; only `POST
    /// /hooks/NAME` is answered there. A change needs a restart.
    "listen" listen: required Address;
    /// The least time between two pulls that calls ask for.
    "min_gap" min_gap: defaults Span = Span::secs(2);
    /// Senders by name, which is a part of their address. Names are as those of agents.
    "hooks" hooks: required Named<Hook>;
    instead {
        "address" => "did you mean `listen`?",
        "port" => "did you mean `listen`? It is an address and a port, such as `127.0.0.1:8787`",
        "gap" => "did you mean `min_gap`?",
        "secret" => "a secret never stands in the workflow: `hooks.NAME.secret_env` names a variable",
    }
}

section! {
    /// One sender.
    struct Hook;
    /// How it proves itself. `github`: `X-Hub-Signature-256`. `gitlab`: `webhook-signature` when
    /// the secret is a signing token (`whsec_…`), else `X-Gitlab-Token`. `linear`:
    /// `Linear-Signature` and the time in the body. `hmac`: HMAC-SHA256 of the body as hex, with or
    /// without `sha256=`, in `header`.
    "kind" kind: required HookKind;
    /// The variable of the daemon that holds the secret. Where it is not set, every call is
    /// refused.
    "secret_env" secret_env: required EnvName;
    /// With `hmac`: the header of the signature.
    "header" header: optional HeaderName;
    /// With `hmac`: the header of the delivery's id, by which a call that comes twice is known.
    "id_header" id_header: optional HeaderName;
    instead {
        "type" => "did you mean `kind`?",
        "secret" => "a secret never stands in the workflow: `secret_env` names a variable",
        "token" => "a secret never stands in the workflow: `secret_env` names a variable",
        "env" => "did you mean `secret_env`?",
    }
}

section! {
    /// Something that is due at certain times.
    struct Entry;
    /// When: minute, hour, day of the month, month, day of the week (`0 3 * * *`), with an optional
    /// field for seconds in front; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    "cron" cron: required CronPattern;
    /// By which clock, as the tz database names it: `Europe/Berlin`.
    "time_zone" time_zone: defaults Zone = Zone("UTC".to_owned());
    /// A shell command, run like the pull command; when it ends well, a pull follows. Exactly one
    /// of `command` and `pull: true`.
    "command" command: optional Text;
    /// Only look at the workflow and the issues.
    "pull" pull: defaults bool = false;
    /// How long the command may take.
    "timeout" timeout: defaults Positive = Positive(Span::secs(60));
    /// Whether one run makes up for those that were missed while no daemon ran.
    "catch_up" catch_up: defaults bool = false;
    instead {
        "when" => "did you mean `cron`?",
        "at" => "did you mean `cron`?",
        "every" => "did you mean `cron`? `*/5 * * * *` is every five minutes",
        "timezone" => "did you mean `time_zone`?",
        "tz" => "did you mean `time_zone`?",
        "zone" => "did you mean `time_zone`?",
        "run" => "did you mean `command`?",
        "cmd" => "did you mean `command`?",
    }
}
