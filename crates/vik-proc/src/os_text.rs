//! Lossless JSON for operating-system text: a string if it is UTF-8, otherwise an array of its
//! bytes. For serde's attribute `with`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that consists of operating-system text.
pub(crate) trait OsText: Sized {
    /// The form of the value in JSON.
    type Json: Serialize + DeserializeOwned;

    fn to_json(&self) -> Self::Json;
    fn from_json(json: Self::Json) -> Self;
}

pub(crate) fn serialize<T: OsText, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_json().serialize(serializer)
}

pub(crate) fn deserialize<'de, T: OsText, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Json::deserialize(deserializer).map(T::from_json)
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Utf8(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        match text.to_str() {
            Some(utf8) => Self::Utf8(utf8.to_owned()),
            None => Self::Bytes(text.as_bytes().to_vec()),
        }
    }
}

impl OsText for OsString {
    type Json = Text;

    fn to_json(&self) -> Text {
        self.as_os_str().into()
    }

    fn from_json(json: Text) -> Self {
        match json {
            Text::Utf8(utf8) => utf8.into(),
            Text::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

impl OsText for PathBuf {
    type Json = Text;

    fn to_json(&self) -> Text {
        self.as_os_str().into()
    }

    fn from_json(json: Text) -> Self {
        OsString::from_json(json).into()
    }
}

impl<T: OsText> OsText for Option<T> {
    type Json = Option<T::Json>;

    fn to_json(&self) -> Self::Json {
        self.as_ref().map(T::to_json)
    }

    fn from_json(json: Self::Json) -> Self {
        json.map(T::from_json)
    }
}

impl<T: OsText> OsText for Vec<T> {
    type Json = Vec<T::Json>;

    fn to_json(&self) -> Self::Json {
        self.iter().map(T::to_json).collect()
    }

    fn from_json(json: Self::Json) -> Self {
        json.into_iter().map(T::from_json).collect()
    }
}

impl<A: OsText, B: OsText> OsText for (A, B) {
    type Json = (A::Json, B::Json);

    fn to_json(&self) -> Self::Json {
        (self.0.to_json(), self.1.to_json())
    }

    fn from_json((a, b): Self::Json) -> Self {
        (A::from_json(a), B::from_json(b))
    }
}
