//! The values of a workflow by their keys, for comparison and display.

use std::fmt;

use serde::Serialize;
use vik_yaml::text::quoted;

use crate::duration::Span;
use crate::limits::Limit;

pub(super) struct Leaf {
    /// The complete value, for comparison.
    pub(super) exact: String,
    pub(super) shown: Shown,
    pub(super) needs_restart: bool,
}

pub(super) enum Shown {
    As(String),
    Lines(usize),
    Hidden,
}

/// The values by their keys, in file order.
#[derive(Default)]
pub(in crate::workflow) struct Leaves(pub(super) Vec<(String, Leaf)>);

impl Leaves {
    pub(super) fn put(&mut self, path: &str, exact: impl fmt::Debug, shown: Shown) {
        let leaf = Leaf {
            exact: format!("{exact:?}"),
            shown,
            needs_restart: false,
        };
        self.0.push((path.to_owned(), leaf));
    }

    /// Adds a number, a name of Vik's own, or the like.
    pub(in crate::workflow) fn plain(&mut self, path: &str, value: impl fmt::Display + fmt::Debug) {
        let shown = Shown::As(value.to_string());
        self.put(path, value, shown);
    }

    pub(in crate::workflow) fn optional<T: fmt::Display + fmt::Debug>(
        &mut self,
        path: &str,
        value: Option<T>,
    ) {
        let shown = value
            .as_ref()
            .map_or_else(|| "null".to_owned(), ToString::to_string);
        self.put(path, value, Shown::As(shown));
    }

    pub(in crate::workflow) fn span(&mut self, path: &str, span: Span) {
        self.put(path, span.0, Shown::As(span.to_string()));
    }

    pub(super) fn quoted(&mut self, path: &str, text: &str) {
        self.put(path, text, Shown::As(quoted(text)));
    }

    pub(super) fn optional_quoted(&mut self, path: &str, text: Option<&str>) {
        let shown = text.map_or_else(|| "null".to_owned(), quoted);
        self.put(path, text, Shown::As(shown));
    }

    pub(in crate::workflow) fn list<'t>(&mut self, path: &str, items: impl IntoIterator<Item = &'t str>) {
        let items: Vec<&str> = items.into_iter().collect();
        let shown: Vec<String> = items.iter().map(|text| quoted(text)).collect();
        self.put(path, items, Shown::As(format!("[{}]", shown.join(", "))));
    }

    /// Adds a variant, displayed as it is serialized.
    pub(in crate::workflow) fn choice(&mut self, path: &str, choice: impl Serialize + fmt::Debug) {
        let shown = serde_json::to_value(&choice).ok();
        let shown = shown
            .and_then(|text| text.as_str().map(str::to_owned))
            .unwrap_or_default();
        self.put(path, choice, Shown::As(shown));
    }

    /// Adds a multi-line text, or a command.
    pub(in crate::workflow) fn text(&mut self, path: &str, text: Option<&str>) {
        let count = text.map_or(0, |text| text.lines().count());
        self.put(path, text, Shown::Lines(count));
    }

    pub(super) fn limit(&mut self, path: &str, suffix: &str, limit: Limit) {
        let Limit { tokens, usd } = limit;
        self.optional(&format!("{path}.usd{suffix}"), usd.map(|usd| usd.usd()));
        self.optional(&format!("{path}.tokens{suffix}"), tokens);
    }

    pub(super) fn until_restart(&mut self) {
        if let Some((_, leaf)) = self.0.last_mut() {
            leaf.needs_restart = true;
        }
    }
}
