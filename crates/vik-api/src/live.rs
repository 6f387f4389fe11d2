//! The live facts of a session as a text for people.

use jiff::Timestamp;

use crate::SessionView;

impl SessionView {
    /// Returns what is known of the agent at this moment in one line; `None` if nothing is.
    pub fn live_text(&self, now: Timestamp) -> Option<String> {
        let facts = self.live_facts(now);
        (!facts.is_empty()).then(|| facts.join(" · "))
    }

    /// Returns what is known of the agent at this moment, the most important first: how far its stop
    /// is, what it waits for and how long, the speed of its answer, its context and its rate limit.
    /// It may contain any text of the agent.
    pub fn live_facts(&self, now: Timestamp) -> Vec<String> {
        let mut parts = Vec::new();
        if let Some(stopping) = &self.stopping {
            let next = stopping.next_step_at.map(|at| {
                let next = if stopping.step == "interrupt" {
                    "terminate"
                } else {
                    "kill"
                };
                format!(", {next} in {}", elapsed(now, at))
            });
            let (step, next) = (&stopping.step, next.unwrap_or_default());
            parts.push(format!("stopping ({step}{next}): {}", stopping.why));
        }
        if let Some(turn) = self.turn {
            parts.push(turn.to_string());
        }
        if let Some(waits) = &self.waits_for {
            let time = elapsed(waits.since, now);
            parts.push(match (waits.kind.as_str(), waits.detail.as_deref()) {
                ("tool", Some(tool)) if self.names_tool(tool) => format!("runs for {time}"),
                ("tool", tool) => format!("waits {time} for {}", tool.unwrap_or("a tool")),
                ("person", _) => format!("waits {time} for a person"),
                (_, Some(arriving)) => format!("waits {time} for the model ({arriving})"),
                (_, None) => format!("waits {time} for the model"),
            });
        }
        if let Some(speed) = self.tokens_per_second {
            parts.push(format!("~{speed:.0} tokens/s"));
        }
        if let Some(context) = self.context {
            parts.push(match context.window.filter(|window| *window > 0) {
                Some(window) => {
                    let share = context.used as f64 / window as f64 * 100.0;
                    format!("context {share:.0}% full")
                }
                None => format!("context {} tokens", context.used),
            });
        }
        if let Some(limit) = self.rate_limit {
            parts.push(format!("rate limit {:.0}% used", limit.used_percent));
        }
        parts
    }

    /// Returns whether the activity, which is shown before the live text, names this tool.
    fn names_tool(&self, tool: &str) -> bool {
        let activity = self.activity.as_deref();
        activity.is_some_and(|activity| activity.starts_with(tool))
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> String {
    match to.duration_since(from).as_secs().max(0) {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}
