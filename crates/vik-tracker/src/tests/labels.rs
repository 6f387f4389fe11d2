use super::*;

fn labels(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the front matter after a change, and whether it changed; or the error.
fn change(front: &str, add: &str, remove: &str) -> Result<(String, bool), TrackerError> {
    let (_dir, tracker) = tracker();
    let (head, body) = ("---\nid: 1\nstate: todo\n", "---\nText [a, b]\n");
    put(&tracker, "1.md", &format!("{head}{front}{body}"));
    let changed = tracker.label("1", &labels(add), &labels(remove))?;
    // A second time, nothing is left to do.
    assert!(!tracker.label("1", &labels(add), &labels(remove))?);
    let text = get(&tracker, "1.md");
    let front = text
        .strip_prefix(head)
        .and_then(|text| text.strip_suffix(body))
        .unwrap();
    Ok((front.to_owned(), changed))
}

#[test]
fn labels_change_in_place() {
    for (before, add, remove, after) in [
        ("", "bug", "", "labels: [bug]\n"),
        ("", "", "bug", ""),
        (
            "title: a # b\n",
            "bug ok",
            "bad",
            "title: a # b\nlabels: [bug, ok]\n",
        ),
        ("labels: ~\nx: 1\n", "bug", "", "labels: [bug]\nx: 1\n"),
        ("labels: [a, 'b'] # mine\n", "c", "", "labels: [a, b, c] # mine\n"),
        ("labels: [a, b]\nx: 1\n", "a", "b", "labels: [a]\nx: 1\n"),
        ("labels: [a]\n", "", "a", "labels: []\n"),
        ("labels: [\"a]\", b] # ]\n", "c", "b", "labels: [\"a]\", c] # ]\n"),
        ("labels: [a,\n  b]\n", "c", "", "labels: [a, b, c]\n"),
        ("labels: [7]\n", "8", "", "labels: [7, 8]\n"),
        (
            "labels:\n  - a # why\n  - \"b\"\nx: 1\n",
            "c",
            "b",
            "labels:\n  - a # why\n  - c\nx: 1\n",
        ),
        ("labels:\r\n- a\r\n", "b", "", "labels:\r\n- a\r\n- b\r\n"),
        ("labels:\n- a\nx: 1\n", "", "a", "labels:\nx: 1\n"),
    ] {
        let (found, changed) =
            change(before, add, remove).unwrap_or_else(|error| panic!("{before}: {error}"));
        assert_eq!(found, after, "{before}");
        assert_eq!(changed, before != after, "{before}");
    }
}

#[test]
fn labels_that_cannot_be_changed_alone_stay() {
    for before in [
        "labels: bug\n",
        "labels: # none\n",
        "labels: {a: b}\n",
        "labels:\n  - {name: a}\n",
        "labels: &x [a]\nmore: *x\n",
    ] {
        let error = change(before, "c", "").unwrap_err();
        assert!(
            matches!(error, TrackerError::NotEditable { .. } | TrackerError::Broken(_)),
            "{before}: {error}"
        );
    }
}

#[test]
fn hand_edits_stay_when_labels_change() {
    let (_dir, tracker) = tracker();
    let text = BY_HAND.replace("  - {b: [1, 2.5, ~]}\r\n", "");
    put(&tracker, "a.md", &text);
    assert!(tracker.label("A-1", &labels("c"), &labels("a")).unwrap());
    assert_eq!(get(&tracker, "a.md"), text.replace("  - a\r\n", "  - c\r\n"));
}
