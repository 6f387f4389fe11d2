# Functions of the stand-ins on the remote host.
state=$REMOTE/systemd

# Records a call, and kills the calling shell instead if it is the one that the test names.
record() {
  printf '%s %s\n' "${0##*/}" "$*" >>"$REMOTE/calls"
  at=$(cat "$REMOTE/break_at" 2>/dev/null)
  [ -z "$at" ] || [ "$(wc -l <"$REMOTE/calls")" -ne "$at" ] || {
    kill -9 "$PPID"
    exit 1
  }
}

set_property() { printf '%s' "$2" >"$state/$1"; }

# Starts the unit: it is as the test says in `next_state`, or active and connected.
begin() {
  count=$(($(cat "$state/count" 2>/dev/null || echo 0) + 1))
  set_property count "$count"
  set_property InvocationID "run-$count"
  set_property ActiveState "$(cat "$state/next_state" 2>/dev/null || echo active)"
  set_property StatusText "$(cat "$state/next_status" 2>/dev/null || echo connected to temporal:7233, queue q)"
  cp "$HOME/.local/share/vik-worker/bin/vik" "$state/running" || set_property ActiveState failed
}

# Lets one second pass, without waiting: a worker that drains has fewer of them left.
spend_second() {
  left=$(cat "$state/draining" 2>/dev/null || echo 0)
  [ "$(cat "$state/ActiveState" 2>/dev/null)" = deactivating ] || return 0
  if [ "$left" -gt 0 ]; then
    set_property draining "$((left - 1))"
  else
    begin
  fi
}
