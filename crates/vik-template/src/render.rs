//! Runs the engine: strict, bounded, and with the values of shell text replaced by placeholders.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value as Template};
use serde_json::Value;

use super::error::TemplateError;
use super::plan::{self, Plan, Rendered};
use super::{Fence, MAX_OUTPUT_BYTES, Part, Prompt, names, shell};

/// The most steps of the engine; a template that needs more is taken for one that does not end.
const FUEL: u64 = 2_000_000;

/// Renders the rewritten source. Values that are printed outside of shell text go through the
/// fence, if there is one.
pub(super) fn render(plan: &Plan, context: &Value, fence: Option<&Fence>) -> Result<Rendered, TemplateError> {
    let values = Arc::new(Mutex::new(Vec::new()));
    let mut environment = Environment::new();
    environment.set_syntax(plan::syntax());
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_debug(true);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(100);
    // Set while a value of shell text is formatted: its quotes make it data, so it needs no fence.
    let in_shell = Arc::new(AtomicBool::new(false));
    if let Some(fence) = fence {
        let (fence, placeholder) = (fence.clone(), plan::placeholder_start(&plan.nonce));
        let in_shell = Arc::clone(&in_shell);
        environment.set_formatter(move |out, state, value| {
            let is_text = !matches!(
                value.kind(),
                ValueKind::Undefined | ValueKind::None | ValueKind::Bool | ValueKind::Number
            );
            if is_text && !in_shell.load(Ordering::Relaxed) {
                let text = value.to_string();
                if !text.starts_with(&placeholder) {
                    return Ok(out.write_str(&fence.print(&text))?);
                }
            }
            minijinja::escape_formatter(out, state, value)
        });
    }
    environment.add_filter(plan.filter(), {
        let (nonce, values) = (plan.nonce.clone(), Arc::clone(&values));
        move |state: &mut State<'_, '_>, value: Template, site: usize| -> Result<String, Error> {
            // `format` writes the value as `{{ … }}` does, and refuses an undefined one.
            in_shell.store(true, Ordering::Relaxed);
            let text = state.format(value);
            in_shell.store(false, Ordering::Relaxed);
            let text = text?;
            let mut values = values.lock().unwrap_or_else(PoisonError::into_inner);
            values.push((site, text));
            Ok(plan::placeholder(&nonce, values.len() - 1))
        }
    });
    let mut output = Bounded {
        bytes: Vec::new(),
        full: false,
    };
    let result = environment
        .template_from_named_str("template", &plan.rewritten)
        .and_then(|template| {
            template
                .render_captured_to(minijinja::value::Serde(context), &mut output)
                .map(drop)
        });
    if output.full {
        return Err(TemplateError::TooLong {
            limit_bytes: MAX_OUTPUT_BYTES,
        });
    }
    result.map_err(|error| explain(plan, &error, context))?;
    let text = String::from_utf8(output.bytes).map_err(|_| TemplateError::Failed {
        line: 1,
        detail: "the result is not UTF-8".to_owned(),
    })?;
    let values = std::mem::take(&mut *values.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Rendered { text, values })
}

fn explain(plan: &Plan, error: &Error, context: &Value) -> TemplateError {
    let line = error.line().unwrap_or(1);
    let detail = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    // The name of the filter is internal.
    let detail = detail.replace(&plan.filter(), "shell");
    match error.kind() {
        ErrorKind::UndefinedError => names::undefined(line, &detail, context),
        ErrorKind::SyntaxError => TemplateError::Syntax { line, detail },
        kind if error.detail().is_some() => TemplateError::Failed {
            line,
            detail: format!("{kind}: {detail}"),
        },
        _ => TemplateError::Failed { line, detail },
    }
}

/// Splits a rendered prompt into text and finished commands.
pub(super) fn split(plan: &Plan, rendered: Rendered) -> Result<Prompt, TemplateError> {
    let Rendered { text, values } = rendered;
    let mut rendered = Rendered {
        text: String::new(),
        values,
    };
    let mut parts = Vec::new();
    let (start, end) = (plan.command_mark(), plan.end());
    let mut remaining = text.as_str();
    while let Some((before, tail)) = remaining.split_once(&start) {
        let Some((number, tail)) = tail.split_once(';') else {
            break;
        };
        let Some((inner, tail)) = tail.split_once(&end) else {
            break;
        };
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        inner.clone_into(&mut rendered.text);
        let is_data = |(at, (site, _)): (usize, &(usize, String))| {
            plan.sites.get(*site).is_none_or(|site| !site.is_trusted)
                && inner.contains(&plan::placeholder(&plan.nonce, at))
        };
        let has_data = rendered.values.iter().enumerate().any(is_data);
        let line = number
            .parse()
            .ok()
            .and_then(|number: usize| plan.commands.get(number))
            .copied()
            .unwrap_or(1);
        parts.push(Part::Command {
            script: shell::quote(plan, &rendered)?,
            line,
            has_data,
        });
        remaining = tail;
    }
    if !remaining.is_empty() {
        parts.push(Part::Text(remaining.to_owned()));
    }
    Ok(Prompt { parts })
}

struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_OUTPUT_BYTES {
            self.full = true;
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the rendered template is too long",
            ));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
