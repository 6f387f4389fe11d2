//! The values of single sections.

use super::Leaves;
use crate::outputs::{OutputPolicy, OutputRule};
use crate::workflow::{ApprovePolicy, CallRule, StageIntent, TrustPolicy};

impl Leaves {
    pub(super) fn approve(&mut self, approve: Option<&ApprovePolicy>) {
        let Some(ApprovePolicy {
            before,
            after,
            calls,
            timeout,
            on_timeout,
        }) = approve
        else {
            return;
        };
        self.plain("approve.before", before);
        self.plain("approve.after", after);
        // As JSON, because different rules may have the same short form.
        let json = |rule: &CallRule| serde_json::to_string(rule).unwrap_or_default();
        let rules: Vec<_> = calls.iter().map(json).collect();
        self.list("approve.calls", rules.iter().map(String::as_str));
        self.span("approve.timeout", *timeout);
        self.choice("approve.on_timeout", on_timeout);
    }
}

impl Leaves {
    pub(super) fn intent(&mut self, intent: &StageIntent) {
        let StageIntent {
            scope,
            constraints,
            acceptance,
            on_violation,
            from_issue,
        } = intent;
        self.optional("intent.owned_scope", scope.as_ref());
        self.list("intent.constraints", constraints.iter().map(String::as_str));
        self.list("intent.acceptance", acceptance.iter().map(String::as_str));
        self.choice("intent.on_violation", on_violation);
        self.plain("intent.from_issue", from_issue);
    }

    pub(super) fn trust(&mut self, trust: Option<&TrustPolicy>) {
        let Some(TrustPolicy {
            authors,
            labels,
            untrusted,
        }) = trust
        else {
            return;
        };
        self.list("trust.authors", authors.iter().map(String::as_str));
        self.list("trust.labels", labels.iter().map(String::as_str));
        self.choice("trust.untrusted", untrusted);
    }
}

impl Leaves {
    pub(super) fn outputs(&mut self, outputs: Option<&OutputPolicy>) {
        self.plain("outputs", if outputs.is_some() { "on" } else { "off" });
        let Some(OutputPolicy { rules, secrets }) = outputs else {
            return;
        };
        for (kind, rule) in rules {
            let OutputRule {
                max,
                allow,
                run,
                check,
                approve,
            } = rule;
            let at = |key: &str| format!("outputs.{kind}.{key}");
            self.plain(&at("max"), max);
            if let Some(allow) = allow {
                self.list(&at("allow"), allow.globs().iter().map(String::as_str));
            }
            self.text(&at("run"), Some(run));
            self.text(&at("check"), check.as_deref());
            self.plain(&at("approve"), approve);
        }
        self.list("outputs.secrets", secrets.iter().map(String::as_str));
    }
}
