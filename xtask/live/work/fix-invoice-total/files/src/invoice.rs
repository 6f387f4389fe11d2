use crate::line::Line;
use crate::money::{display, per_mille};

/// An invoice.
#[derive(Clone, Debug, Default)]
pub struct Invoice {
    lines: Vec<Line>,
    /// The tax, in tenths of a percent.
    tax_rate: u64,
}

impl Invoice {
    pub fn new(tax_rate: u64) -> Invoice {
        Invoice {
            lines: Vec::new(),
            tax_rate,
        }
    }

    pub fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Returns the amount before discounts.
    pub fn gross(&self) -> u64 {
        self.lines.iter().map(Line::gross).sum()
    }

    /// Returns the amount after discounts.
    pub fn net(&self) -> u64 {
        self.lines.iter().map(Line::net).sum()
    }

    pub fn tax(&self) -> u64 {
        per_mille(self.gross(), self.tax_rate)
    }

    pub fn total(&self) -> u64 {
        self.net() + self.tax()
    }

    /// Returns the last line of the printed invoice.
    pub fn summary(&self) -> String {
        format!(
            "net {}, tax {}, total {}",
            display(self.net()),
            display(self.tax()),
            display(self.total())
        )
    }
}
