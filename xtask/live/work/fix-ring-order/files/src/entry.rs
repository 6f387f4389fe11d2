/// How serious an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Info,
    Warning,
    Error,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub level: Level,
    pub text: String,
}

impl Entry {
    pub fn new(level: Level, text: &str) -> Entry {
        Entry {
            level,
            text: text.to_string(),
        }
    }
}
