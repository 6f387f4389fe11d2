use std::hash::Hasher;

#[test]
fn known_values() {
    for (text, hash) in [("", 0xcbf29ce484222325_u64), ("a", 0xaf63dc4c8601ec8c), ("foobar", 0x85944171f73967e8)] {
        let mut hasher = fnv::FnvHasher::default();
        hasher.write(text.as_bytes());
        assert_eq!(hasher.finish(), hash, "{text}");
    }
}
