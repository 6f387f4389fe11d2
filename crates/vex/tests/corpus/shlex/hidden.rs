#[test]
fn backslashes_in_double_quotes() {
    for (text, words) in [
        (r#""a\b""#, vec![r"a\b"]),
        (r#"x "\$\`\"\\\n""#, vec!["x", r#"$`"\\n"#]),
        ("\"a\\\nb\"", vec!["ab"]),
        (r"a\b", vec!["ab"]),
    ] {
        assert_eq!(shlex::split(text).unwrap(), words, "{text}");
    }
}
