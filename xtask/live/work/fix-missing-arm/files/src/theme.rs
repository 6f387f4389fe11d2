use crate::color::Color;
use crate::names::{parse, UnknownColor};

/// The colours of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Theme {
    pub text: Color,
    pub accent: Color,
}

impl Theme {
    /// Reads a theme such as `blue on red`: the text, then the accent.
    pub fn read(line: &str) -> Result<Theme, UnknownColor> {
        let (text, accent) = line
            .split_once(" on ")
            .ok_or_else(|| UnknownColor(line.to_string()))?;
        Ok(Theme {
            text: parse(text)?,
            accent: parse(accent)?,
        })
    }
}
