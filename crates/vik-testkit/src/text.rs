//! Checks of texts that show the text when they fail.

/// Fails the test if a text does not contain a part.
///
/// # Panics
///
/// Panics with the part and the whole text.
#[track_caller]
pub fn assert_contains(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}
