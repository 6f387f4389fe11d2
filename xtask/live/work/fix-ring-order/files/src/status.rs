use crate::entry::{Entry, Level};
use crate::ring::Ring;

/// Returns the text of the status page: the entries from a level on, the oldest first.
pub fn status_page(log: &Ring<Entry>, from: Level) -> String {
    let mut page = format!("{} entries\n", log.len());
    for entry in log.iter().filter(|entry| entry.level >= from) {
        page.push_str(&format!("{:?}: {}\n", entry.level, entry.text));
    }
    page
}
