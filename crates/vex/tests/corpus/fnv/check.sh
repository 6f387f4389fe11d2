set -eu
# The tests of the package itself, then those that the agent does not see.
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
rustc --test -A warnings --edition 2015 --cfg 'feature="std"' lib.rs -o "$out/own"
"$out/own" -q
rustc --crate-type rlib -A warnings --edition 2015 --cfg 'feature="std"' --crate-name fnv lib.rs -o "$out/libfnv.rlib"
rustc --test -A warnings --edition 2021 "$here/hidden.rs" --extern fnv="$out/libfnv.rlib" -o "$out/hidden"
"$out/hidden" -q
