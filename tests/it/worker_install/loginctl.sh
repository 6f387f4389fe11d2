#!/bin/sh
# A stand-in for loginctl, with one user.
. "$REMOTE/lib.sh"
case "$*" in
"show-user "*" --property=Linger --value") cat "$state/Linger" 2>/dev/null || echo no ;;
"--no-ask-password enable-linger "*)
  record "$@"
  [ ! -f "$state/refuses_linger" ] || exit 1
  rm -f "$state/no_session"
  set_property Linger yes
  ;;
*)
  echo "loginctl: $*" >&2
  exit 64
  ;;
esac
