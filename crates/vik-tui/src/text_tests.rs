use proptest::prelude::*;

use super::*;

#[test]
fn fit_removes_control_characters() {
    assert_eq!(
        fit("a\x1b[31mb\u{202e}c\rd\r\n", 80),
        "a⟦U+001B⟧[31mb⟦U+202E⟧c⟦U+000D⟧d "
    );
    assert_eq!(fit("👩\u{200d}💻 ❤\u{fe0f} א\u{200f}", 80), "👩💻 ❤ א");
    assert_eq!(fit("one\ntwo\tthree", 80), "one two    three");
    assert_eq!(
        fit("e\u{301}\u{301}\u{301}\u{301}\u{301}", 80),
        "e\u{301}\u{301}\u{301}"
    );
    assert_eq!(fit("\u{301}a", 80), "a");
    assert_eq!(fit("a\u{feff}\u{e0041}", 80), "a⟦U+FEFF⟧⟦U+E0041⟧");
}

#[test]
fn fit_cuts_text_by_columns() {
    assert_eq!(fit("abcdef", 4), "abc…");
    assert_eq!(fit("abcd", 4), "abcd");
    assert_eq!(fit("日本語です", 7), "日本語…");
    assert_eq!(fit("日本語です", 6), "日本…");
    assert_eq!(fit("abc", 0), "");
    assert_eq!(fit_at("abcdefgh", 3, 3), "de…");
    assert_eq!(
        fit_end("/home/me/project/workflow.yml", 21),
        "…project/workflow.yml"
    );
}

#[test]
fn wrap_breaks_between_tokens() {
    let lines = |text, width| wrap(text, width, 99).0;
    assert_eq!(lines("the quick brown fox", 10), ["the quick", "brown fox"]);
    assert_eq!(lines("abcdefghijkl", 5), ["abcde", "fghij", "kl"]);
    assert_eq!(lines("a\n\n  b", 5), ["a", "", "  b"]);
    assert_eq!(lines("日本語です", 4), ["日本", "語で", "す"]);
    assert_eq!(
        wrap("a b c d e f", 3, 2),
        (vec!["a b".to_owned(), "c …".to_owned()], true)
    );
    assert_eq!(
        wrap("a\nb\nc", 3, 2),
        (vec!["a".to_owned(), "b".to_owned()], true)
    );
}

#[test]
fn numbers_are_shortened() {
    assert_eq!(duration(59), "59s");
    assert_eq!(duration(785), "13m05s");
    assert_eq!(duration(7_980), "2h13m");
    assert_eq!(duration(273_600), "3d04h");
    assert_eq!(money_limit(20.0), "$20");
    assert_eq!(money_limit(2.5), "$2.50");
}

#[test]
fn natural_order_sorts_numbers_in_ids() {
    let mut ids = ["PROJ-10", "7", "PROJ-9", "10", "07", "a"];
    ids.sort_by(|a, b| natural_order(a, b));
    assert_eq!(ids, ["07", "7", "10", "PROJ-9", "PROJ-10", "a"]);
}

proptest! {
    #[test]
    fn fit_is_safe_and_within_the_width(text in any::<String>(), columns in 0usize..40) {
        let cut = fit(&text, columns);
        prop_assert!(width(&cut) <= columns, "{cut:?}");
        prop_assert!(!cut.contains(char::is_control));
        prop_assert_eq!(&fit(&cut, columns), &cut, "what is safe stays as it is");
        let end = fit_end(&text, columns);
        prop_assert!(width(&end) <= columns, "{end:?}");
        for line in wrap(&text, columns, 50).0 {
            prop_assert!(width(&line) <= columns.max(12), "{line:?}");
            prop_assert!(!line.contains(char::is_control));
        }
    }

    #[test]
    fn natural_order_is_transitive(a in "[a-c0-2]{0,6}", b in "[a-c0-2]{0,6}", c in "[a-c0-2]{0,6}") {
        prop_assert_eq!(natural_order(&a, &b), natural_order(&b, &a).reverse());
        if natural_order(&a, &b) != Ordering::Greater && natural_order(&b, &c) != Ordering::Greater {
            prop_assert!(natural_order(&a, &c) != Ordering::Greater);
        }
    }
}
