use percent_encoding::{utf8_percent_encode, AsciiSet, CONTROLS};

const NEVER: &AsciiSet = &CONTROLS.remove(b'a').remove(b'\n');
const TWICE: &AsciiSet = &CONTROLS.add(b'b').remove(b'b').remove(b'b');

#[test]
fn removing_twice_is_removing_once() {
    assert_eq!(utf8_percent_encode("a\n\t", NEVER).to_string(), "a\n%09");
    assert_eq!(utf8_percent_encode("ab", TWICE).to_string(), "ab");
}
