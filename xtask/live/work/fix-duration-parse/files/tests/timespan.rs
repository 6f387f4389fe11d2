use timespan::{format, parse, ParseError};

#[test]
fn one_unit() {
    assert_eq!(parse("5s"), Ok(5));
    assert_eq!(parse("2d"), Ok(172_800));
}

#[test]
fn several_units() {
    assert_eq!(parse("1h2m3s"), Ok(3723));
}

#[test]
fn several_digits() {
    assert_eq!(parse("90m"), Ok(5400));
    assert_eq!(parse("1h30m"), Ok(5400));
}

#[test]
fn wrong_texts() {
    assert_eq!(parse(" "), Err(ParseError::Empty));
    assert_eq!(parse("5x"), Err(ParseError::UnknownUnit('x')));
    assert_eq!(parse("h"), Err(ParseError::MissingNumber('h')));
    assert_eq!(parse("1h5"), Err(ParseError::MissingUnit(5)));
}

#[test]
fn formatted() {
    assert_eq!(format(0), "0s");
    assert_eq!(format(5400), "1h30m");
}
