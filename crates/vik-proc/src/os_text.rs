//! Lossless JSON for operating-system text: a string if it is UTF-8, otherwise an array of its
//! bytes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Utf8(String),
    Bytes(Vec<u8>),
}

impl Text {
    fn of(text: &std::ffi::OsStr) -> Self {
        match text.to_str() {
            Some(utf8) => Self::Utf8(utf8.to_owned()),
            None => Self::Bytes(text.as_bytes().to_vec()),
        }
    }

    fn into_os(self) -> OsString {
        match self {
            Self::Utf8(utf8) => utf8.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

/// Serialises one `OsString` or `PathBuf`.
pub(crate) mod one {
    use super::*;

    pub(crate) fn serialize<T: AsRef<std::ffi::OsStr>, S: Serializer>(
        text: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Text::of(text.as_ref()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Ok(Text::deserialize(deserializer)?.into_os().into())
    }
}

/// Serialises an optional `PathBuf`.
pub(crate) mod option {
    use super::*;

    pub(crate) fn serialize<T: AsRef<std::ffi::OsStr>, S: Serializer>(
        text: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        text.as_ref()
            .map(|text| Text::of(text.as_ref()))
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.into_os().into()))
    }
}

/// Serialises a list of paths.
pub(crate) mod paths {
    use std::path::PathBuf;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| Text::of(path.as_os_str())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        let texts = Vec::<Text>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|text| text.into_os().into()).collect())
    }
}

/// Serialises a list of arguments.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(texts: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(texts.iter().map(|text| Text::of(text)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
        Ok(Vec::<Text>::deserialize(deserializer)?
            .into_iter()
            .map(Text::into_os)
            .collect())
    }
}

/// Serialises an environment.
pub(crate) mod pairs {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        pairs: &[(OsString, OsString)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            pairs
                .iter()
                .map(|(name, value)| (Text::of(name), Text::of(value))),
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(OsString, OsString)>, D::Error> {
        let pairs = Vec::<(Text, Text)>::deserialize(deserializer)?;
        Ok(pairs
            .into_iter()
            .map(|(name, value)| (name.into_os(), value.into_os()))
            .collect())
    }
}
