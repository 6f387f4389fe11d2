//! Texts, and parts of files that other programs wrote, with secrets masked.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use vik_workspace::fs as private;

/// Returns the text with its secrets masked.
pub fn masked(text: String) -> String {
    match vik_mask::mask(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => masked,
    }
}

/// Returns a part of a file as text, without its secrets. A secret that is only partly in this part
/// is masked too.
///
/// # Errors
/// When the file cannot be read.
pub fn read(file: &mut File, part: Range<u64>) -> io::Result<String> {
    let masker = vik_mask::process();
    let margin = masker.around() as u64;
    let start = part.start.saturating_sub(margin);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(part.end.saturating_add(margin) - start)
        .read_to_end(&mut bytes)?;
    let at = |offset: u64| {
        usize::try_from(offset - start)
            .unwrap_or(usize::MAX)
            .min(bytes.len())
    };
    // Each piece is decoded separately: invalid UTF-8 must not move the boundaries.
    let pieces = [0, at(part.start), at(part.end), bytes.len()];
    let texts: Vec<_> = pieces
        .windows(2)
        .map(|ends| lossy(&bytes, ends[0]..ends[1]))
        .collect();
    let (before, inside) = (texts[0].len(), texts[1].len());
    Ok(masker.mask_part(&texts.concat(), before..before + inside))
}

/// Returns the text of a part, which ends with its last whole character; the next part starts after
/// it.
fn lossy(bytes: &[u8], part: Range<usize>) -> String {
    let border = |at: usize| {
        let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
        let back = (0..=3.min(at)).find(|back| !is_inside(at - back));
        back.map_or(at, |back| at - back)
    };
    String::from_utf8_lossy(&bytes[border(part.start)..border(part.end)]).into_owned()
}

/// Returns the end of a file as text, without its secrets; empty if the file cannot be read.
pub fn read_tail(path: &Path, bytes: u64) -> String {
    read_tail_after(path, 0, bytes)
}

/// Returns the end of what follows the first `start` bytes of a file, as [`read_tail`] does.
pub fn read_tail_after(path: &Path, start: u64, bytes: u64) -> String {
    let read_end = || -> io::Result<String> {
        let mut file = private::open(path)?;
        let size = file.seek(SeekFrom::End(0))?;
        read(&mut file, size.saturating_sub(bytes).max(start.min(size))..size)
    };
    read_end().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use vik_mask::Label;

    use super::*;

    #[test]
    fn file_range_never_shows_a_part_of_a_secret() {
        let secret = "pärt-of-a-secret-9f8e";
        vik_mask::learn([(Label::Secret("PART".to_owned()), secret.to_owned())]);
        let mut file = tempfile::tempfile().unwrap();
        let text = format!("one {secret} two");
        file.write_all(text.as_bytes()).unwrap();
        file.write_all(b" \xff\xfe").unwrap();
        let size = file.metadata().unwrap().len();
        for start in 0..=size {
            for end in start..=size {
                let shown = read(&mut file, start..end).unwrap();
                let visible = shown.replace("[secret PART]", "").replace('\u{fffd}', "");
                assert!("one  two ".contains(&visible), "{start}..{end}: {shown}");
            }
        }
        assert_eq!(
            read(&mut file, 4..size).unwrap(),
            "[secret PART] two \u{fffd}\u{fffd}"
        );
        assert_eq!(read(&mut file, 9..11).unwrap(), "[secret PART]");
    }
}
