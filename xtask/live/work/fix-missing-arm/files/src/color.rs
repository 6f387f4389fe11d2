/// A colour of the palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Red,
    Orange,
    Green,
    Blue,
}

impl Color {
    pub const ALL: [Color; 4] = [Color::Red, Color::Orange, Color::Green, Color::Blue];

    /// Returns the RGB value.
    pub fn rgb(self) -> (u8, u8, u8) {
        match self {
            Color::Red => (0xd0, 0x20, 0x20),
            Color::Orange => (0xe0, 0x80, 0x10),
            Color::Green => (0x20, 0xa0, 0x40),
            Color::Blue => (0x20, 0x50, 0xc0),
        }
    }

    /// Returns the value for CSS, such as `#d02020`.
    pub fn css(self) -> String {
        let (red, green, blue) = self.rgb();
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}
