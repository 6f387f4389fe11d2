set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- tests Cargo.toml
cat > tests/hidden.rs <<'RS'
use timespan::{format, parse, ParseError};

#[test]
fn hidden() {
    for (text, seconds) in [("10s", 10), ("125m", 7500), ("007s", 7), ("12h5m30s", 43_530), ("100d", 8_640_000)] {
        assert_eq!(parse(text), Ok(seconds), "{text}");
    }
    for seconds in [1, 59, 61, 3600, 86_399, 90_061, 864_000] {
        assert_eq!(parse(&format(seconds)), Ok(seconds));
    }
    assert_eq!(parse("15"), Err(ParseError::MissingUnit(15)));
    assert_eq!(parse("10hm"), Err(ParseError::MissingNumber('m')));
}
RS
cargo test --offline -q
