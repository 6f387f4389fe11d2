use std::fmt;

use crate::color::Color;

/// No colour has this name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownColor(pub String);

impl fmt::Display for UnknownColor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown colour `{}`", self.0)
    }
}

/// Returns the name of a colour in theme files.
pub fn name(color: Color) -> &'static str {
    match color {
        Color::Red => "red",
        Color::Green => "green",
        Color::Blue => "blue",
    }
}

/// Returns the colour with a name; upper and lower case do not matter.
pub fn parse(text: &str) -> Result<Color, UnknownColor> {
    let lower = text.trim().to_lowercase();
    Color::ALL
        .into_iter()
        .find(|color| name(*color) == lower)
        .ok_or_else(|| UnknownColor(text.to_string()))
}
