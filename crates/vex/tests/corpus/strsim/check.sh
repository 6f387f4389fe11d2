set -eu
# The tests of the package itself, then those that the agent does not see.
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
rustc --test -A warnings --edition 2015 src/lib.rs -o "$out/own"
"$out/own" -q
rustc --crate-type rlib -A warnings --edition 2015 --crate-name strsim src/lib.rs -o "$out/libstrsim.rlib"
rustc --test -A warnings --edition 2021 "$here/hidden.rs" --extern strsim="$out/libstrsim.rlib" -o "$out/hidden"
"$out/hidden" -q
