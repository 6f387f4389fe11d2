//! Styles of tones: colours of the terminal's own palette, or none.

use ratatui::style::{Color, Modifier, Style};

use crate::table::Tone;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) color: bool,
}

impl Theme {
    pub(super) fn tone(self, tone: Tone) -> Style {
        let plain = Style::new();
        let style = match tone {
            Tone::Plain => plain,
            Tone::Strong | Tone::Warn => plain.add_modifier(Modifier::BOLD),
            // Grey is unreadable in some palettes; dim is derived from the text's own colour.
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Bad => plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Tone::Good | Tone::Name => plain,
        };
        if !self.color {
            return style;
        }
        match tone {
            Tone::Plain | Tone::Strong | Tone::Faint => style,
            Tone::Good => plain.fg(Color::Green),
            Tone::Warn => plain.fg(Color::Yellow),
            Tone::Bad => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Name => plain.fg(Color::Cyan),
        }
    }

    /// Returns the style of the selected row, tab or bar.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
