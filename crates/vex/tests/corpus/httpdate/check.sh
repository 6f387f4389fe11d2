set -eu
# The tests of the package itself, then those that the agent does not see.
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
rustc --test -A warnings --edition 2021 src/lib.rs -o "$out/own"
"$out/own" -q
rustc --crate-type rlib -A warnings --edition 2021 --crate-name httpdate src/lib.rs -o "$out/libhttpdate.rlib"
rustc --test -A warnings --edition 2021 "$here/hidden.rs" --extern httpdate="$out/libhttpdate.rlib" -o "$out/hidden"
"$out/hidden" -q
grep -q "951868800" src/lib.rs
