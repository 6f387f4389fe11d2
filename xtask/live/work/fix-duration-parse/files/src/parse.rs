use std::fmt;

use crate::unit::Unit;

/// Why a text is no duration.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    Empty,
    UnknownUnit(char),
    /// A unit without a number before it.
    MissingNumber(char),
    /// A number without a unit after it.
    MissingUnit(u64),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Empty => write!(f, "the duration is empty"),
            ParseError::UnknownUnit(unit) => write!(f, "unknown unit `{unit}`"),
            ParseError::MissingNumber(unit) => write!(f, "no number before `{unit}`"),
            ParseError::MissingUnit(number) => write!(f, "no unit after `{number}`"),
        }
    }
}

/// Returns the seconds of a duration such as `1h30m`.
pub fn parse(text: &str) -> Result<u64, ParseError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ParseError::Empty);
    }
    let mut total = 0;
    let mut number: Option<u64> = None;
    for letter in text.chars() {
        if let Some(digit) = letter.to_digit(10) {
            number = Some(u64::from(digit));
            continue;
        }
        let unit = Unit::from_letter(letter).ok_or(ParseError::UnknownUnit(letter))?;
        let count = number.take().ok_or(ParseError::MissingNumber(letter))?;
        total += count * unit.seconds();
    }
    match number {
        Some(number) => Err(ParseError::MissingUnit(number)),
        None => Ok(total),
    }
}
