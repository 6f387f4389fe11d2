# Starts the worker, or restarts it if its files changed, and waits until it is connected.
main() {
  lock
  user=$(id -un)
  keep_running
  systemctl --user daemon-reload </dev/null || fail systemd daemon-reload
  systemctl --user --quiet enable "$unit.service" </dev/null || fail systemd enable
  start
  wait_until_connected
  report end started
}

# Keeps the services of the user running without a login, if that is allowed.
keep_running() {
  linger=$(loginctl show-user "$user" --property=Linger --value 2>/dev/null)
  if [ "$linger" = yes ]; then
    report linger unchanged
  elif loginctl --no-ask-password enable-linger "$user" 2>/dev/null </dev/null; then
    report linger changed
  else
    report linger refused
  fi
  tries=0
  until systemctl --user show-environment >/dev/null 2>&1; do
    [ "$tries" -lt 10 ] || fail session "$user"
    tries=$((tries + 1))
    sleep 1
  done
}

# Starts the unit unless it runs with the present files. `pending` exists until it does, and has the
# invocation that is being replaced once that was requested.
start() {
  invocation=$(property InvocationID)
  invocation=${invocation:-none}
  state=$(property ActiveState)
  previous=
  replaced=
  [ ! -f "$data/pending" ] || read -r replaced <"$data/pending" || :
  if [ -f "$data/pending" ] && [ "$replaced" != "$invocation" ] && [ -n "$replaced" ] && [ "$state" = active ]; then
    rm -f "$data/pending"
  fi
  case $state in
  active | activating | reloading | deactivating)
    if [ ! -f "$data/pending" ]; then
      report service unchanged
      return
    fi
    request restart
    report service restarted
    ;;
  *)
    systemctl --user reset-failed "$unit.service" 2>/dev/null </dev/null
    request start
    report service started
    ;;
  esac
}

request() {
  previous=$invocation
  printf '%s\n' "$previous" >"$data/pending" || fail files "$data/pending"
  systemctl --user --no-block "$1" "$unit.service" </dev/null || fail systemd "$1"
}

wait_until_connected() {
  waited=0
  drains=no
  while :; do
    invocation=$(property InvocationID)
    state=$(property ActiveState)
    if [ "$state" = deactivating ]; then
      [ "$drains" = yes ] || report draining "$invocation"
      drains=yes
    elif [ "${invocation:-none}" != "$previous" ]; then
      rm -f "$data/pending"
      check_state
      [ "$connected" = no ] || return 0
    fi
    [ "$waited" -lt "$timeout" ] || fail_with_journal timeout "$state"
    sleep 1
    waited=$((waited + 1))
    # Ends this script if the installer was interrupted.
    report waiting "$waited"
  done
}

# Sets `connected`, and fails if the worker has ended.
check_state() {
  connected=no
  case $state in
  active)
    status=$(property StatusText)
    case $status in "$connected_prefix"*)
      connected=yes
      report connected "$status"
      ;;
    esac
    ;;
  activating) [ "$(property SubState)" != auto-restart ] || fail_with_journal ended "$state" ;;
  failed | inactive) fail_with_journal ended "$state" ;;
  esac
}

# Fails with the last lines that the worker printed.
fail_with_journal() {
  journalctl --user --unit "$unit.service" --no-pager --quiet --lines 8 --output cat 2>/dev/null </dev/null |
    while IFS= read -r line; do report journal "$line"; done
  fail "$1" "$2"
}
