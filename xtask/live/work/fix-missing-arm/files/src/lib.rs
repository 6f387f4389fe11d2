//! Colours of a theme by name.

mod color;
mod names;
mod theme;

pub use color::Color;
pub use names::{name, parse, UnknownColor};
pub use theme::Theme;
