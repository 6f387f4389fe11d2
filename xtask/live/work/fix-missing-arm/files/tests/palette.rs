use palette::{name, parse, Color, Theme};

#[test]
fn names() {
    assert_eq!(name(Color::Green), "green");
    assert_eq!(parse(" Blue "), Ok(Color::Blue));
    assert!(parse("pink").is_err());
}

#[test]
fn orange() {
    assert_eq!(parse("orange").map(Color::css), Ok("#e08010".to_string()));
    let theme = Theme::read("orange on blue").unwrap();
    assert_eq!(theme.text, Color::Orange);
}
