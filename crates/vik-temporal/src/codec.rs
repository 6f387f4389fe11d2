//! The payload codec: compresses what is sent to the server, and encrypts it if there is a key.
//!
//! An encoded payload contains the original one as a whole, so its type is not visible either:
//! Protocol Buffers, then deflate, then AES-256-GCM with a random nonce in front. The version and the
//! id of the key are in the metadata, and authenticated with the payload. A key should encrypt at
//! most 2^32 payloads.

use std::fmt;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use futures::future::{BoxFuture, FutureExt, ready};
use prost::Message;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use temporalio_common::data_converters::{PayloadCodec, PayloadConversionError, SerializationContextData};
use temporalio_common::protos::temporal::api::common::v1::Payload;

/// A payload that is larger after encoding is refused before it is sent, in bytes.
pub const MAX_ENCODED_BYTES: usize = 1024 * 1024;

/// A payload that is larger before encoding is refused, and one that would be larger after decoding
/// too, in bytes.
pub const MAX_PLAIN_BYTES: usize = 16 * 1024 * 1024;

const ENCODING: &[u8] = b"binary/vik-1";
const KEY_ID: &str = "vik-key";

/// A payload that the server itself writes, as the details of an activity that was cancelled before a
/// worker took it. If it were refused, the workflow could not continue.
const SERVER_TEXT: &[u8] = br#""ACTIVITY_ID_NOT_STARTED""#;

/// A key for payloads, with the id by which its payloads name it.
#[derive(Clone)]
pub struct PayloadKey {
    id: String,
    secret: LessSafeKey,
}

impl PayloadKey {
    /// Returns the key with this id and secret.
    ///
    /// # Errors
    ///
    /// Returns an error unless the secret has 32 bytes and the id is neither empty nor longer than
    /// 64 bytes.
    pub fn new(id: &str, secret: &[u8]) -> Result<Self, CodecError> {
        if id.is_empty() || id.len() > 64 {
            return Err(CodecError::InvalidKey("its id must have 1 to 64 bytes"));
        }
        let secret = UnboundKey::new(&AES_256_GCM, secret)
            .map_err(|_| CodecError::InvalidKey("its secret must have 32 bytes"))?;
        Ok(Self {
            id: id.to_owned(),
            secret: LessSafeKey::new(secret),
        })
    }
}

impl fmt::Debug for PayloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayloadKey({})", self.id)
    }
}

/// Encodes with the first key, and decodes with each; without keys, only compresses.
#[derive(Clone, Debug, Default)]
pub struct Codec {
    keys: Vec<PayloadKey>,
}

/// A payload cannot be sent or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("the key for payloads cannot be used: {0}")]
    InvalidKey(&'static str),
    #[error("a payload has {bytes} bytes, the maximum is {MAX_PLAIN_BYTES}")]
    TooLarge { bytes: usize },
    #[error(
        "a payload has {bytes} bytes after compression, the maximum is {MAX_ENCODED_BYTES}: \
         it was not sent"
    )]
    TooLargeEncoded { bytes: usize },
    #[error("a payload is larger than {MAX_PLAIN_BYTES} bytes after decompression")]
    Bomb,
    #[error("a payload is not encrypted, but a key is configured: it is refused")]
    NotEncrypted,
    #[error("a payload is encrypted with the key `{0}`, which is not configured")]
    UnknownKey(String),
    #[error("a payload was not encoded by vik: it is refused")]
    Foreign,
    #[error("a payload is damaged, or was encrypted with another key of the same id")]
    Damaged,
    #[error("the system has no randomness")]
    NoRandomness,
}

impl Codec {
    /// Returns a codec which encrypts with `key`, and decodes what was encrypted with it or with one
    /// of the `older` keys. What is not encrypted is refused.
    pub fn encrypted(key: PayloadKey, older: Vec<PayloadKey>) -> Self {
        let mut keys = vec![key];
        keys.extend(older);
        Self { keys }
    }

    fn encode_payload(&self, payload: &Payload) -> Result<Payload, CodecError> {
        let bytes = payload.encoded_len();
        if bytes > MAX_PLAIN_BYTES {
            return Err(CodecError::TooLarge { bytes });
        }
        let mut encoded = Payload::default();
        encoded.metadata.insert("encoding".to_owned(), ENCODING.to_vec());
        encoded.data = compress(&payload.encode_to_vec())?;
        if let Some(key) = self.keys.first() {
            encoded
                .metadata
                .insert(KEY_ID.to_owned(), key.id.clone().into_bytes());
            encoded.data = encrypt(key, encoded.data)?;
        }
        let bytes = encoded.encoded_len();
        if bytes > MAX_ENCODED_BYTES {
            return Err(CodecError::TooLargeEncoded { bytes });
        }
        Ok(encoded)
    }

    fn decode_payload(&self, payload: Payload) -> Result<Payload, CodecError> {
        let encoding = payload.metadata.get("encoding").map(Vec::as_slice);
        if encoding != Some(ENCODING) {
            // Without a key, what other programs and the server write can be read.
            let is_accepted = self.keys.is_empty() || payload.data == SERVER_TEXT;
            return match is_accepted {
                true => Ok(payload),
                false if encoding.is_some() => Err(CodecError::NotEncrypted),
                false => Err(CodecError::Foreign),
            };
        }
        let compressed = match payload.metadata.get(KEY_ID) {
            None if self.keys.is_empty() => payload.data,
            None => return Err(CodecError::NotEncrypted),
            Some(id) => {
                let key = self.keys.iter().find(|key| key.id.as_bytes() == id);
                let unknown = || CodecError::UnknownKey(String::from_utf8_lossy(id).into_owned());
                decrypt(key.ok_or_else(unknown)?, payload.data)?
            }
        };
        Payload::decode(decompress(&compressed)?.as_slice()).map_err(|_| CodecError::Damaged)
    }
}

fn compress(plain: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(plain)
        .and_then(|()| encoder.finish())
        .map_err(|_| CodecError::Damaged)
}

fn decompress(compressed: &[u8]) -> Result<Vec<u8>, CodecError> {
    let limit = MAX_PLAIN_BYTES as u64 + 1;
    let mut plain = Vec::new();
    DeflateDecoder::new(compressed)
        .take(limit)
        .read_to_end(&mut plain)
        .map_err(|_| CodecError::Damaged)?;
    if plain.len() > MAX_PLAIN_BYTES {
        return Err(CodecError::Bomb);
    }
    Ok(plain)
}

/// Returns the data that is authenticated with a payload.
fn context(key: &PayloadKey) -> Aad<Vec<u8>> {
    Aad::from([ENCODING, b"\0", key.id.as_bytes()].concat())
}

fn encrypt(key: &PayloadKey, mut data: Vec<u8>) -> Result<Vec<u8>, CodecError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|_| CodecError::NoRandomness)?;
    key.secret
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), context(key), &mut data)
        .map_err(|_| CodecError::Damaged)?;
    Ok([&nonce, data.as_slice()].concat())
}

fn decrypt(key: &PayloadKey, mut data: Vec<u8>) -> Result<Vec<u8>, CodecError> {
    let (nonce, sealed) = data
        .split_first_chunk_mut::<NONCE_LEN>()
        .ok_or(CodecError::Damaged)?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let plain = key
        .secret
        .open_in_place(nonce, context(key), sealed)
        .map_err(|_| CodecError::Damaged)?;
    Ok(plain.to_vec())
}

impl PayloadCodec for Codec {
    fn encode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let encoded: Result<_, _> = payloads
            .iter()
            .map(|payload| self.encode_payload(payload))
            .collect();
        ready(encoded.map_err(conversion_error)).boxed()
    }

    fn decode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let decoded: Result<_, _> = payloads
            .into_iter()
            .map(|payload| self.decode_payload(payload))
            .collect();
        ready(decoded.map_err(conversion_error)).boxed()
    }
}

fn conversion_error(error: CodecError) -> PayloadConversionError {
    PayloadConversionError::EncodingError(Box::new(error))
}

#[cfg(test)]
mod tests;
