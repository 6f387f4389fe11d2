//! Numbers of things, for people.

use std::fmt::Display;

/// Returns a number of things: `1 issue`, `2 issues`.
pub fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let end = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_one_is_singular() {
        assert_eq!(count(0, "issue"), "0 issues");
        assert_eq!(count(1, "issue"), "1 issue");
        assert_eq!(count(2, "issue"), "2 issues");
    }
}
