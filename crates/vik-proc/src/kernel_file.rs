//! Reads files that the kernel makes when they are read, such as those below `/proc`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Most of these files are smaller.
const FIRST_BYTES: usize = 4096;

/// Reads a file. The size of such a file is not known, and `std::fs::read` therefore starts with
/// reads of 32 bytes, for each of which the kernel may make the whole file.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut content = vec![0; FIRST_BYTES];
    let mut length = 0;
    loop {
        match file.read(&mut content[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == content.len() {
            content.resize(length * 2, 0);
        }
    }
    content.truncate(length);
    Ok(content)
}

/// Reads a file with one read, for a file whose records are shorter than half of [`FIRST_BYTES`]:
/// the kernel returns less than that only at the end of such a file.
pub(crate) fn read_short(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let mut content = vec![0; FIRST_BYTES];
    let length = loop {
        match File::open(path)?.read(&mut content) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            length => break length?,
        }
    };
    if length >= FIRST_BYTES / 2 {
        return read(path);
    }
    content.truncate(length);
    Ok(content)
}

/// Reads a file that contains text.
pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_any_size_is_read_as_a_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for size in [
            0,
            1,
            FIRST_BYTES - 1,
            FIRST_BYTES,
            FIRST_BYTES + 1,
            3 * FIRST_BYTES,
        ] {
            std::fs::write(file.path(), vec![b'x'; size]).unwrap();
            assert_eq!(read(file.path()).unwrap(), vec![b'x'; size]);
            assert_eq!(read_short(file.path()).unwrap(), vec![b'x'; size]);
        }
        assert!(read("/no/such/file").is_err());
    }
}
