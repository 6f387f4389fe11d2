#!/bin/sh
# A stand-in for systemctl, with the properties of one unit as files.
. "$REMOTE/lib.sh"
case "$*" in
"--user show-environment") [ ! -f "$state/no_session" ] ;;
"--user show vik-worker.service --property="*" --value")
  property=${4#--property=}
  [ ! -f "$state/$property" ] || cat "$state/$property"
  echo
  ;;
"--user reset-failed vik-worker.service") ;;
"--user daemon-reload" | "--user --quiet enable vik-worker.service") record "$@" ;;
"--user --no-block restart vik-worker.service")
  record "$@"
  if [ -f "$state/draining" ]; then set_property ActiveState deactivating; else begin; fi
  ;;
"--user --no-block start vik-worker.service")
  record "$@"
  begin
  ;;
*)
  echo "systemctl: $*" >&2
  exit 64
  ;;
esac
