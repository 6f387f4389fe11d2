set -eu
# The tests of the package itself, then those that the agent does not see.
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
rustc --test -A warnings --edition 2018 --cfg 'feature="std"' src/lib.rs -o "$out/own"
"$out/own" -q
rustc --crate-type rlib -A warnings --edition 2018 --cfg 'feature="std"' --crate-name shlex src/lib.rs -o "$out/libshlex.rlib"
rustc --test -A warnings --edition 2021 "$here/hidden.rs" --extern shlex="$out/libshlex.rlib" -o "$out/hidden"
"$out/hidden" -q
