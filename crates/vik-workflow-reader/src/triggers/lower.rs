//! Builds the model of these sections.

use std::collections::BTreeMap;

use vik_core::workflow::{Hook, HookKind, Job, ScheduleEntry, Webhooks};
use vik_yaml::{Diagnostic, join};

use super::file;
use crate::check::Check;

impl Check<'_> {
    pub(crate) fn webhooks(&mut self, section: Option<file::Webhooks>) -> Option<Webhooks> {
        let Some(section) = section else {
            return Some(Webhooks::default());
        };
        let listen = section.listen;
        if let Some(address) = listen.filter(|address| !address.ip().is_loopback()) {
            self.report(
                Diagnostic::warning(
                    "open_listener",
                    "webhooks.listen",
                    format!(
                        "the webhook server at {address} accepts unencrypted connections from other machines"
                    ),
                )
                .hint("listen on `127.0.0.1`, behind a reverse proxy or a tunnel that provides HTTPS"),
            );
        }
        let hooks = section.hooks.map(|hooks| {
            hooks
                .into_iter()
                .map(|(name, hook)| {
                    let hook = self.hook(&name, hook)?;
                    Some((name, hook))
                })
                .collect::<Option<BTreeMap<_, _>>>()
        });
        Some(Webhooks {
            listen: Some(listen?),
            min_gap: section.min_gap,
            hooks: hooks??,
        })
    }

    fn hook(&mut self, name: &str, hook: file::Hook) -> Option<Hook> {
        let at = |key: &str| join(&join("webhooks.hooks", name), key);
        let kind = hook.kind?;
        if kind == HookKind::Hmac && self.places.is_absent(&at("header")) {
            self.report(
                Diagnostic::error("missing_key", at("header"), "the kind `hmac` needs a `header`")
                    .hint("add the name of the header with the signature: `header: X-Signature`"),
            );
        }
        for key in ["header", "id_header"]
            .into_iter()
            .filter(|_| kind != HookKind::Hmac)
        {
            let message = format!("`{key}` has no effect with this `kind`");
            self.unused(
                at(key),
                message,
                Some("the key applies to the kind `hmac`".to_owned()),
            );
        }
        let only = |header: Option<String>| header.filter(|_| kind == HookKind::Hmac);
        Some(Hook {
            kind,
            secret_env: hook.secret_env?,
            header: only(hook.header),
            id_header: only(hook.id_header),
        })
    }

    pub(crate) fn schedule(
        &mut self,
        section: Option<Vec<(String, file::Entry)>>,
    ) -> Option<BTreeMap<String, ScheduleEntry>> {
        let entries = section.unwrap_or_default();
        entries
            .into_iter()
            .map(|(name, entry)| {
                let entry = self.entry(&name, entry)?;
                Some((name, entry))
            })
            .collect()
    }

    fn entry(&mut self, name: &str, entry: file::Entry) -> Option<ScheduleEntry> {
        let path = join("schedule", name);
        let has_command = !self.places.is_absent(&join(&path, "command"));
        let wrong = match (has_command, entry.pull) {
            (true, true) => Some((
                "the entry has both `command` and `pull`",
                "remove `pull`: a pull follows each command automatically",
            )),
            (false, false) if self.places.is_map(&path) => Some((
                "the entry has neither `command` nor `pull`",
                "add `command: …` or `pull: true`",
            )),
            _ => None,
        };
        if let Some((message, hint)) = wrong {
            self.report_at_key(Diagnostic::error("schedule_job", path.clone(), message).hint(hint));
        }
        if !has_command {
            let message = "`timeout` has no effect without a `command`";
            self.unused(join(&path, "timeout"), message, None);
        }
        Some(ScheduleEntry {
            cron: entry.cron?,
            time_zone: entry.time_zone,
            job: entry.command.map(|command| Job {
                command,
                timeout: entry.timeout,
            }),
            catch_up: entry.catch_up,
        })
    }
}
