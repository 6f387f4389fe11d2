use proptest::prelude::*;

use super::*;

fn payload(data: impl Into<Vec<u8>>) -> Payload {
    Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: data.into(),
        ..Payload::default()
    }
}

fn key(id: &str, byte: u8) -> PayloadKey {
    PayloadKey::new(id, &[byte; 32]).unwrap()
}

fn encrypted() -> Codec {
    Codec::encrypted(key("k1", 1), Vec::new())
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SystemRandom::new().fill(&mut bytes).unwrap();
    bytes
}

#[test]
fn encrypted_payload_shows_neither_its_data_nor_its_type() {
    let secret = payload("the secret text");
    let encoded = encrypted().encode_payload(&secret).unwrap();
    let bytes = encoded.encode_to_vec();
    assert!(!bytes.windows(6).any(|part| part == b"secret"));
    assert!(!bytes.windows(4).any(|part| part == b"json"));
    assert_eq!(encoded.metadata[KEY_ID], b"k1");
    assert_eq!(encrypted().decode_payload(encoded).unwrap(), secret);
}

#[test]
fn encrypted_payload_has_a_nonce_of_its_own() {
    let encode = || encrypted().encode_payload(&payload("same")).unwrap();
    assert_ne!(encode().data, encode().data);
}

#[test]
fn codec_with_a_key_refuses_what_was_not_encrypted() {
    let plain = Codec::default().encode_payload(&payload("x")).unwrap();
    let refused = |payload| encrypted().decode_payload(payload).unwrap_err();
    assert_eq!(refused(plain), CodecError::NotEncrypted);
    assert_eq!(refused(payload("x")), CodecError::NotEncrypted);
    assert_eq!(refused(Payload::default()), CodecError::Foreign);
}

#[test]
fn codec_with_a_key_accepts_what_the_server_writes() {
    let written = payload(SERVER_TEXT);
    assert_eq!(encrypted().decode_payload(written.clone()), Ok(written));
}

#[test]
fn codec_refuses_another_key_by_its_id() {
    let other = Codec::encrypted(key("k2", 2), Vec::new());
    let encoded = other.encode_payload(&payload("x")).unwrap();
    let unknown = CodecError::UnknownKey("k2".to_owned());
    assert_eq!(encrypted().decode_payload(encoded.clone()), Err(unknown.clone()));
    assert_eq!(Codec::default().decode_payload(encoded.clone()), Err(unknown));
    let rotated = Codec::encrypted(key("k1", 1), vec![key("k2", 2)]);
    assert_eq!(rotated.decode_payload(encoded), Ok(payload("x")));
}

#[test]
fn codec_refuses_a_changed_payload() {
    let encoded = encrypted().encode_payload(&payload("x")).unwrap();
    for index in 0..encoded.data.len() {
        let mut changed = encoded.clone();
        changed.data[index] ^= 1;
        assert_eq!(encrypted().decode_payload(changed), Err(CodecError::Damaged));
    }
    let same_id = Codec::encrypted(key("k1", 9), Vec::new());
    assert_eq!(same_id.decode_payload(encoded.clone()), Err(CodecError::Damaged));
    // The id is authenticated: a payload cannot be moved to another key of the same secret.
    let both = Codec::encrypted(key("k1", 1), vec![key("k3", 1)]);
    let mut moved = encoded;
    moved.metadata.insert(KEY_ID.to_owned(), b"k3".to_vec());
    assert_eq!(both.decode_payload(moved), Err(CodecError::Damaged));
}

#[test]
fn codec_refuses_what_stays_too_large() {
    let error = encrypted()
        .encode_payload(&payload(noise(MAX_ENCODED_BYTES)))
        .unwrap_err();
    assert!(matches!(error, CodecError::TooLargeEncoded { bytes } if bytes > MAX_ENCODED_BYTES));
    assert!(error.to_string().ends_with("it was not sent"), "{error}");
    let compressible = payload(vec![b'a'; 8 * MAX_ENCODED_BYTES]);
    assert!(encrypted().encode_payload(&compressible).unwrap().data.len() < 100_000);
    let plain = payload(vec![b'a'; MAX_PLAIN_BYTES]);
    assert!(matches!(
        encrypted().encode_payload(&plain),
        Err(CodecError::TooLarge { .. })
    ));
}

#[test]
fn codec_refuses_a_bomb() {
    let mut bomb = Codec::default().encode_payload(&payload("x")).unwrap();
    bomb.data = compress(&vec![0; 2 * MAX_PLAIN_BYTES]).unwrap();
    assert!(bomb.data.len() < 200_000);
    assert_eq!(Codec::default().decode_payload(bomb), Err(CodecError::Bomb));
}

#[test]
fn key_refuses_a_short_secret_and_hides_it() {
    assert!(PayloadKey::new("k", &[1; 31]).is_err());
    assert!(PayloadKey::new("", &[1; 32]).is_err());
    assert_eq!(format!("{:?}", key("k1", 7)), "PayloadKey(k1)");
}

proptest! {
    #[test]
    fn codec_returns_what_it_was_given(data in proptest::collection::vec(any::<u8>(), 0..5000)) {
        for codec in [Codec::default(), encrypted()] {
            let encoded = codec.encode_payload(&payload(data.clone())).unwrap();
            prop_assert_eq!(codec.decode_payload(encoded).unwrap(), payload(data.clone()));
        }
    }

    #[test]
    fn codec_survives_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..500), has_key: bool) {
        let mut encoded = Codec::default().encode_payload(&payload("x")).unwrap();
        encoded.data = data;
        if has_key {
            encoded.metadata.insert(KEY_ID.to_owned(), b"k1".to_vec());
        }
        let _ = Codec::default().decode_payload(encoded.clone());
        let _ = encrypted().decode_payload(encoded);
    }
}
