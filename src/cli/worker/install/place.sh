# Puts the files in their places. The archive with them follows the script on standard input.
main() {
  mkdir -p "$data/bin" "$data/workflow" || fail files "$data"
  lock
  rm -rf "$staging" && mkdir "$staging" || fail files "$staging"
  tar -xof - -C "$staging" || fail transfer "$staging"
  verify_files
  place_files
  rm -rf "$staging"
  report placed all
  check_host
  report end placed
}

# Checks that a file arrived as it was sent: its name in the archive, its digest.
verify() { [ "$(digest "$staging/$1")" = "$2" ] || fail transfer "$1"; }

# Checks that the program runs here, and has workers: its name in the archive.
try_program() {
  chmod 700 "$staging/$1"
  output=$("$staging/$1" --version 2>&1 </dev/null) || fail program "$output"
  "$staging/$1" worker --help >/dev/null 2>&1 </dev/null || fail no_worker "$output"
  report version "$output"
}

# Remembers that the worker needs a restart, even if this script ends early.
require_restart() { printf '' >"$data/pending" || fail files "$data/pending"; }

# Keeps the program that will be replaced.
keep_previous() {
  [ -f "$data/bin/vik" ] || return 0
  rm -f "$data/bin/vik.previous"
  # Some file systems have no hard links.
  ln "$data/bin/vik" "$data/bin/vik.previous" 2>/dev/null ||
    cp -p "$data/bin/vik" "$data/bin/vik.previous" || fail files "$data/bin/vik.previous"
}

# Removes the files of the previous workflow that the new one does not have: its list in the archive.
remove_old() {
  [ ! -f "$data/workflow.files" ] || while IFS= read -r name; do
    grep -Fxq -e "$name" "$staging/$1" || rm -f "$data/workflow/$name"
  done <"$data/workflow.files"
}

# Replaces a file atomically: its name in the archive, its mode, its path.
place() {
  [ ! -d "$3" ] && mkdir -p "$(dirname "$3")" || fail files "$3"
  mv -f "$staging/$1" "$3.new" && chmod "$2" "$3.new" || fail files "$3"
  # Older versions know no arguments.
  sync "$3.new" 2>/dev/null || sync
  mv -f "$3.new" "$3" || fail files "$3"
  sync "$(dirname "$3")" 2>/dev/null || sync
}

# Reports what the program finds on this host, as lines of JSON.
check_host() {
  PATH=$unit_path "$data/bin/vik" doctor --offline --json --workflow "$data/workflow/$workflow" \
    2>/dev/null </dev/null 9>&- | while IFS= read -r line; do report doctor "$line"; done
}
