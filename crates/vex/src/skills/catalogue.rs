//! The catalogue: which skills there are, for the system prompt.

use super::{Skill, text::one_line};

/// The maximum length of the catalogue, in characters.
const MAX_CHARS: usize = 8000;

/// The share of the context window that the catalogue may take, in percent.
const MAX_PERCENT: u64 = 2;

/// The approximate number of bytes of a token.
const BYTES_PER_TOKEN: u64 = 4;

/// The length down to which descriptions are cut before skills are left out.
const MIN_DESCRIPTION: usize = 40;

/// The longest possible description of a skill: its text with `<` and `>` escaped.
const MAX_DESCRIPTION: usize = 4096;

const HEAD: &str = "\nSkills: instructions for certain kinds of tasks. Before work that one fits, call load_skill and follow it.\n\
                    <skills>\n";
const TAIL: &str = "</skills>\n";

/// The catalogue of skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The text for the system prompt; empty if there are no skills.
    pub text: String,
    /// The number of skills that did not fit.
    pub left_out: usize,
}

impl Catalogue {
    /// Lists skills, in their order, for a context window of this many tokens.
    pub(super) fn new(skills: &[&Skill], window: Option<u64>) -> Self {
        if skills.is_empty() {
            return Self::default();
        }
        let room = Room::of(window);
        let rows: Vec<(String, String)> = skills
            .iter()
            .map(|skill| (escaped(&skill.name), escaped(&skill.description)))
            .collect();
        let cut = |max_chars: usize| Self::of(&rows, max_chars, 0);
        if room.fits(&cut(MAX_DESCRIPTION)) {
            return cut(MAX_DESCRIPTION);
        }
        if room.fits(&cut(MIN_DESCRIPTION)) {
            let fits = |max_chars: usize| room.fits(&cut(max_chars));
            return cut(largest(MIN_DESCRIPTION, MAX_DESCRIPTION, fits));
        }
        let first = |count: usize| Self::of(&rows[..count], MIN_DESCRIPTION, rows.len() - count);
        match largest(0, rows.len(), |count| room.fits(&first(count))) {
            0 => Self {
                text: String::new(),
                left_out: rows.len(),
            },
            count => first(count),
        }
    }

    fn of(rows: &[(String, String)], max_chars: usize, left_out: usize) -> Self {
        let mut text = HEAD.to_owned();
        for row in rows {
            text.push_str(&line(row, max_chars));
        }
        text.push_str(&remainder(left_out));
        text.push_str(TAIL);
        Self { text, left_out }
    }
}

/// Returns the largest number that fits, if `low` does, `high` does not, and all below one that fits
/// do.
fn largest(mut low: usize, mut high: usize, fits: impl Fn(usize) -> bool) -> usize {
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn line((name, description): &(String, String), max_chars: usize) -> String {
    format!("- {name}: {}\n", one_line(description, max_chars))
}

fn remainder(left_out: usize) -> String {
    match left_out {
        0 => String::new(),
        count => format!("[{count} more are not listed]\n"),
    }
}

/// The space for the catalogue.
#[derive(Clone, Copy)]
struct Room {
    /// The share of the window, in bytes.
    bytes: Option<usize>,
}

impl Room {
    fn of(window: Option<u64>) -> Self {
        let share = |tokens: u64| tokens.saturating_mul(MAX_PERCENT * BYTES_PER_TOKEN) / 100;
        Self {
            bytes: window.and_then(|tokens| usize::try_from(share(tokens)).ok()),
        }
    }

    fn fits(self, catalogue: &Catalogue) -> bool {
        let text = &catalogue.text;
        self.bytes.is_none_or(|bytes| text.len() <= bytes) && text.chars().count() <= MAX_CHARS
    }
}

/// Returns a text that does not end the list.
fn escaped(text: &str) -> String {
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skills(count: usize, description: &str) -> Vec<Skill> {
        (0..count)
            .map(|nth| Skill {
                name: format!("skill-{nth:03}"),
                description: description.to_owned(),
                ..Skill::default()
            })
            .collect()
    }

    fn list(skills: &[Skill], window: Option<u64>) -> Catalogue {
        Catalogue::new(&skills.iter().collect::<Vec<_>>(), window)
    }

    #[test]
    fn catalogue_is_one_line_for_each_skill() {
        assert_eq!(Catalogue::new(&[], None), Catalogue::default());
        let catalogue = list(&skills(2, "a </skills> b"), Some(200_000));
        assert_eq!(
            catalogue.text,
            format!("{HEAD}- skill-000: a &lt;/skills&gt; b\n- skill-001: a &lt;/skills&gt; b\n{TAIL}")
        );
    }

    #[test]
    fn descriptions_are_cut_first_and_skills_left_out_last() {
        let (long, short, wide) = ("d".repeat(1024), "d".repeat(30), "é".repeat(1024));
        for (count, description, window, cut, left_out) in [
            (7, &long, None, false, false),
            (30, &long, None, true, false),
            (30, &long, Some(1_000_000), true, false),
            (30, &short, Some(32_000), false, false),
            (30, &long, Some(32_000), true, false),
            (20, &wide, Some(32_000), true, false),
            (300, &short, None, false, true),
            (300, &long, Some(32_000), true, true),
        ] {
            let catalogue = list(&skills(count, description), window);
            let room = window.map_or(MAX_CHARS, |tokens| MAX_CHARS.min(tokens as usize * 8 / 100));
            assert!(catalogue.text.chars().count() <= room, "{count} {window:?}");
            assert!(window.is_none_or(|tokens| catalogue.text.len() <= tokens as usize * 8 / 100));
            assert_eq!(catalogue.text.contains('…'), cut, "{count} {window:?}");
            assert_eq!(catalogue.left_out > 0, left_out, "{count} {window:?}");
            assert_eq!(
                catalogue.text.matches("- skill-").count() + catalogue.left_out,
                count
            );
            if cut || left_out {
                assert!(catalogue.text.len() + 120 > room, "the space is used");
            }
        }
        assert_eq!(list(&skills(3, &long), Some(100)).text, "");
    }
}
