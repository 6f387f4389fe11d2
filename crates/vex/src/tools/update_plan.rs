//! `update_plan`: the model replaces its whole plan.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool::Note;
use super::{Tool, ToolContext, ToolError};
use crate::plan::{Plan, Step, StepStatus, render};

/// The maximum number of steps.
const MAX_STEPS: usize = 50;
/// The maximum length of a step, in characters.
const MAX_STEP_CHARS: usize = 300;

#[derive(Debug, Deserialize)]
pub(crate) struct UpdatePlan {
    steps: Vec<Step>,
}

impl Tool for UpdatePlan {
    const NAME: &'static str = "update_plan";
    const ALIASES: &'static [&'static str] = &["todo_write", "write_todos", "plan", "set_plan"];
    const DESCRIPTION: &'static str =
        "Set the whole plan of a longer task; at most one step is in_progress. It always stays in view.";
    type Kind = Note;
    const REQUIRED: &'static [&'static str] = &["steps"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] =
        &[("plan", "steps"), ("todos", "steps"), ("items", "steps")];

    fn properties() -> Value {
        json!({"steps": {"type": "array", "items": {
            "type": "object",
            "properties": {"text": {"type": "string"},
                           "status": {"type": "string", "enum": ["pending", "in_progress", "done"]}},
            "required": ["text"],
        }}})
    }

    /// Corrects steps in the form of other agents: `step` or `content`, `completed`, or only a
    /// text.
    fn mend(arguments: &mut Map<String, Value>) {
        let Some(Value::Array(steps)) = arguments.get_mut("steps") else {
            return;
        };
        for step in steps {
            if let Value::String(text) = step {
                *step = json!({ "text": text });
            }
            let Value::Object(step) = step else { continue };
            for other in ["step", "content", "title", "description"] {
                if !step.contains_key("text")
                    && let Some(text) = step.remove(other)
                {
                    step.insert("text".to_owned(), text);
                }
            }
            if step.get("status").is_some_and(|status| status == "completed") {
                step.insert("status".to_owned(), json!("done"));
            }
        }
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let text = update(context.plan, self)?;
        context.journal.plan(&context.plan.steps());
        Ok(text)
    }
}

/// Replaces the plan, if the new one is valid.
fn update(plan: &Plan, input: UpdatePlan) -> Result<String, ToolError> {
    let wrong = |reason: &str| Err(ToolError::Failed(format!("the plan was not changed: {reason}")));
    let mut steps = input.steps;
    if steps.is_empty() {
        return wrong("it has no steps");
    }
    if steps.len() > MAX_STEPS {
        return wrong(&format!("more than {MAX_STEPS} steps"));
    }
    for step in &mut steps {
        // One line each, as it is rendered.
        step.text = step.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if step.text.is_empty() {
            return wrong("a step without text");
        }
        if step.text.chars().count() > MAX_STEP_CHARS {
            return wrong(&format!("a step of more than {MAX_STEP_CHARS} characters"));
        }
    }
    let working = steps
        .iter()
        .filter(|step| step.status == StepStatus::InProgress)
        .count();
    if working > 1 {
        return wrong("more than one step is in_progress");
    }
    if plan.steps() == steps {
        return wrong("it is the same as before");
    }
    plan.set(steps);
    Ok(render(&plan.steps()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(plan: &Plan, steps: &Value) -> String {
        let input = serde_json::from_value(json!({ "steps": steps })).unwrap();
        update(plan, input).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn plan_is_replaced_only_by_a_valid_plan() {
        let plan = Plan::default();
        let first = json!([{"text": "look", "status": "in_progress"}, {"text": "fix\n it"}]);
        assert_eq!(set(&plan, &first), "[>] look\n[ ] fix it\n");
        assert!(set(&plan, &first).contains("same as before"));
        assert!(set(&plan, &json!([])).contains("no steps"));
        assert!(set(&plan, &json!([{"text": " "}])).contains("without text"));
        let two = json!([{"text": "a", "status": "in_progress"}, {"text": "b", "status": "in_progress"}]);
        assert!(set(&plan, &two).contains("more than one step"));
        assert_eq!(render(&plan.steps()), "[>] look\n[ ] fix it\n", "nothing changed");
        assert_eq!(
            set(&plan, &json!([{"text": "fix it", "status": "done"}])),
            "[x] fix it\n"
        );
    }
}
