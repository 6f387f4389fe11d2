/// Returns a share of an amount, rounded to the nearest cent, half a cent up.
pub fn per_mille(cents: u64, share: u64) -> u64 {
    (cents * share + 500) / 1000
}

/// Returns an amount as people write it, such as `12.05`.
pub fn display(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}
