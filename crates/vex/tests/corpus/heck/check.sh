set -eu
# The tests of the package itself, then those that the agent does not see.
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
rustc --test -A warnings --edition 2021 src/lib.rs -o "$out/own"
"$out/own" -q
rustc --crate-type rlib -A warnings --edition 2021 --crate-name heck src/lib.rs -o "$out/libheck.rlib"
rustc --test -A warnings --edition 2021 "$here/hidden.rs" --extern heck="$out/libheck.rlib" -o "$out/hidden"
"$out/hidden" -q
