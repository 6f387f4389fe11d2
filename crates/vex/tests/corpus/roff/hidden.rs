use roff::{roman, Roff};

#[test]
fn apostrophes_never_begin_a_line() {
    let lines = |text: &str| Roff::new().text([roman(text)]).to_roff();
    assert_eq!(lines("'tis"), "\\&'tis\n");
    assert_eq!(lines("so\n'tis\n.it"), "so\n\\&'tis\n\\&.it\n");
}
