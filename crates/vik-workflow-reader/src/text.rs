//! Suggestions, and helpers for untrusted text.

pub(crate) use vik_yaml::text::{lines, push_escaped, quoted};

/// Returns the most similar candidate, if one is similar enough.
pub(crate) fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > 100 {
        return None;
    }
    let fold = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let name = fold(name);
    candidates
        .into_iter()
        .map(|candidate| {
            let folded = fold(candidate);
            let similarity = strsim::jaro_winkler(&name, &folded);
            let edits = strsim::damerau_levenshtein(&name, &folded);
            // All short names are similar by Jaro-Winkler, so few edits are required as well.
            let near = edits <= (folded.chars().count().max(3) / 3) || similarity >= 0.9;
            (candidate, similarity, near)
        })
        .filter(|&(_, _, near)| near)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _, _)| candidate)
}

/// Returns ``did you mean `x`?`` for the most similar candidate.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(name, candidates).map(|candidate| format!("did you mean {}?", quoted(candidate)))
}

/// Returns a list such as `a`, `b` or `c`.
pub(crate) fn choices<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// Returns a hint at the known names for an unknown one: the nearest, or the first ones.
pub(crate) fn known_names(name: &str, known: &[&str]) -> Option<String> {
    did_you_mean(name, known.iter().copied()).or_else(|| {
        let some = choices(known.iter().copied().take(10));
        (!known.is_empty()).then(|| format!("available: {some}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near() {
        assert_eq!(closest("plannr", ["builder", "planner"]), Some("planner"));
        assert_eq!(
            closest("max-iterations", ["max_iterations"]),
            Some("max_iterations")
        );
        assert_eq!(
            closest("idle_seconds", ["command", "idle_sec", "timeout"]),
            Some("idle_sec")
        );
        assert_eq!(closest("zzz", ["root"]), None);
        assert_eq!(closest("env", ["args", "model"]), None);
        assert_eq!(choices(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
