//! Changes the list of labels in front matter, and no other byte.

use vik_yaml::{Entry, Kind, Node};

use super::{front, yaml};

const KEY: &str = "labels";

/// Returns the text with other labels, the same text if they are unchanged, or `None` if the change
/// is impossible without other changes. Parses the result again: all other values must be
/// unchanged.
pub(super) fn change(text: &str, entries: &[Entry], add: &[String], remove: &[String]) -> Option<String> {
    let entry = entries.iter().find(|entry| entry.key == KEY);
    let before = entry.map_or_else(|| Some(Vec::new()), |entry| labels(&entry.value))?;
    let added: Vec<&str> = add
        .iter()
        .map(String::as_str)
        .filter(|label| !before.contains(label))
        .collect();
    let kept = before
        .iter()
        .copied()
        .filter(|label| !remove.iter().any(|removed| removed == label));
    let after: Vec<String> = kept.chain(added.iter().copied()).map(str::to_owned).collect();
    if after == before {
        return Some(text.to_owned());
    }
    let fits = |edited: &String| {
        front::entries(edited).is_ok_and(|found| {
            let of_others = |entries: &[Entry]| -> Vec<_> {
                let others = entries.iter().filter(|entry| entry.key != KEY);
                others
                    .map(|entry| (entry.key.clone(), front::json(&entry.value)))
                    .collect()
            };
            let now = found.iter().find(|entry| entry.key == KEY);
            of_others(&found) == of_others(entries)
                && now
                    .and_then(|entry| labels(&entry.value))
                    .is_some_and(|now| now == after)
        })
    };
    let Some(entry) = entry else {
        let newline = if text.ends_with("\r\n") { "\r\n" } else { "\n" };
        return Some(format!("{text}{KEY}: {}{newline}", yaml::list(&after))).filter(fits);
    };
    match &entry.value.kind {
        Kind::Scalar(_) => {
            let (start, old) = front::written(text, &entry.value)?;
            let gap = if old.is_empty() { " " } else { "" };
            let list = yaml::list(&after);
            let edited = format!("{}{gap}{list}{}", &text[..start], &text[start + old.len()..]);
            Some(edited).filter(fits)
        }
        Kind::List(items) => {
            let start = front::offset(text, &entry.value)?;
            if text[start..].starts_with('[') {
                // A bracket in a label is not the end: then the result does not fit.
                let ends = text[start..].match_indices(']').map(|(at, _)| start + at + 1);
                let list = yaml::list(&after);
                ends.map(|end| format!("{}{list}{}", &text[..start], &text[end..]))
                    .find(fits)
            } else {
                block(text, items, &added, remove).filter(fits)
            }
        }
        Kind::Map(_) => None,
    }
}

/// Returns the labels of a value; `None` if it is no list of texts.
fn labels(value: &Node) -> Option<Vec<&str>> {
    match &value.kind {
        Kind::List(items) => items.iter().map(front::text).collect(),
        _ if value.is_null() => Some(Vec::new()),
        _ => None,
    }
}

/// Changes a list with one line for each item.
fn block(text: &str, items: &[Node], added: &[&str], remove: &[String]) -> Option<String> {
    let last = items.last()?.place.line as usize;
    let mut edited = String::with_capacity(text.len());
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_removed = items.iter().any(|item| {
            item.place.line as usize == index + 1
                && front::text(item).is_some_and(|label| remove.iter().any(|removed| removed == label))
        });
        if !is_removed {
            edited.push_str(line);
        }
        if index + 1 == last {
            let indent = &line[..line.find('-')?];
            let newline = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
            for label in added {
                edited.push_str(&format!("{indent}- {}{newline}", yaml::scalar(label)));
            }
        }
    }
    Some(edited)
}
