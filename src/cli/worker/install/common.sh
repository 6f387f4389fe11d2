# Functions of all scripts. Values are assigned before: unit, data (below $HOME).
set -u
umask 077
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
DBUS_SESSION_BUS_ADDRESS=${DBUS_SESSION_BUS_ADDRESS:-unix:path=$XDG_RUNTIME_DIR/bus}
export LC_ALL PATH XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS
data=$HOME/$data
staging=$data/incoming

# Prints one line for the installer: a key and a value.
report() { printf 'vik-install: %s %s\n' "$1" "$2"; }

# Ends the script with a reason, of which the installer knows the meaning.
fail() {
  report failed "$1 $2"
  exit 1
}

# Prints the SHA-256 of a file, or `-` if there is none.
digest() {
  sum=-
  [ ! -f "$1" ] || sum=$(sha256sum <"$1")
  printf '%s' "${sum%% *}"
}

property() { systemctl --user show "$unit.service" --property="$1" --value; }

# Refuses to run beside another installation of the same worker.
lock() {
  exec 9>"$data/lock" || fail files "$data/lock"
  flock -w 10 9 || fail busy "$data/lock"
}
