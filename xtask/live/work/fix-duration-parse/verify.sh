cargo test --offline -q
