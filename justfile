# Shortcuts for daily work. `just` lists them; each is a command that can also be run without just.

_default:
    @just --list --unsorted

# Run the example offline: no account, no key
example:
    cargo run -- run --once workflow.example.yml

# Check the format, lints and generated files; takes seconds when nothing has changed
check:
    cargo fmt --all --check
    cargo clippy --workspace --exclude vik-temporal --all-targets --features otlp -- -D warnings
    cargo xtask tidy
    cargo xtask generate --check

# Run the tests without the agent CLIs from npm; arguments go to `cargo nextest run`
test *ARGS:
    cargo xtask test --no-agents -- {{ ARGS }}

# Run all tests, those with the real agent CLIs too
test-all:
    cargo xtask test

# Update what is generated: the reference, man pages, schemas
generate:
    cargo xtask generate
    cargo fmt --all

# Review changed snapshots
review:
    cargo insta review

# Run everything that CI runs
ci:
    .ci/run
