use crate::unit::Unit;

/// Returns the shortest text for a number of seconds, such as `1h30m`.
pub fn format(seconds: u64) -> String {
    if seconds == 0 {
        return "0s".to_string();
    }
    let mut text = String::new();
    let mut left = seconds;
    for unit in Unit::ALL {
        let count = left / unit.seconds();
        if count > 0 {
            text.push_str(&format!("{count}{}", unit.letter()));
            left -= count * unit.seconds();
        }
    }
    text
}
