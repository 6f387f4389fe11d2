! grep -rniw -e 'conn' -e 'take_conn' -e 'open_conns' src tests examples README.md && test -e src/session.rs && cargo test --offline -q
