set -eu
# The tests of the package itself, then those that the agent does not see.
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
rustc --test -A warnings --edition 2018 --cfg 'feature="std"' --cfg 'feature="alloc"' src/lib.rs -o "$out/own"
"$out/own" -q
rustc --crate-type rlib -A warnings --edition 2018 --cfg 'feature="std"' --cfg 'feature="alloc"' --crate-name percent_encoding src/lib.rs -o "$out/libpercent_encoding.rlib"
rustc --test -A warnings --edition 2021 "$here/hidden.rs" --extern percent_encoding="$out/libpercent_encoding.rlib" -o "$out/hidden"
"$out/hidden" -q
test "$(grep -c "#\[test\]" src/ascii_set.rs)" -gt 4
