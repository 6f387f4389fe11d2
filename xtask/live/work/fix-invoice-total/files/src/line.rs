/// One line of an invoice.
#[derive(Clone, Debug)]
pub struct Line {
    pub text: String,
    pub quantity: u64,
    /// The price of one, in cents.
    pub price: u64,
    /// The discount, in percent.
    pub discount: u64,
}

impl Line {
    pub fn new(text: &str, quantity: u64, price: u64) -> Line {
        Line {
            text: text.to_string(),
            quantity,
            price,
            discount: 0,
        }
    }

    pub fn with_discount(mut self, percent: u64) -> Line {
        self.discount = percent.min(100);
        self
    }

    /// Returns the amount before the discount, in cents.
    pub fn gross(&self) -> u64 {
        self.quantity * self.price
    }

    /// Returns the amount after the discount, in cents.
    pub fn net(&self) -> u64 {
        self.gross() - self.gross() * self.discount / 100
    }
}
