set -e
test ! -e src/conn.rs
test -e src/session.rs
if grep -rniE '\bconns?\b|_conns?\b|\bconn_' src tests examples README.md; then exit 1; fi
grep -q 'take_session' README.md
grep -q '`Session`' README.md
grep -q 'fn limit' tests/pool.rs
grep -q 'fn sent_lines' tests/pool.rs
test "$(grep -c 'assert_eq!' tests/pool.rs)" = 5
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- Cargo.toml
cat > tests/hidden.rs <<'RS'
use pooled::{Pool, PoolError, Session};

#[test]
fn hidden() {
    let pool = Pool::new("a", 2);
    let first: Session = pool.take_session().unwrap();
    let second = pool.take_session().unwrap();
    assert_eq!(pool.open_sessions(), 2);
    assert_eq!(pool.take_session().err(), Some(PoolError::Exhausted { limit: 2 }));
    drop((first, second));
    assert_eq!(pool.open_sessions(), 0);
}
RS
cargo test --offline -q
test "$(cargo run --offline -q --example ping)" = 'db:5432 < ping'
