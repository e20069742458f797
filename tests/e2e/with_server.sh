#!/usr/bin/env bash
# Runs a command against a server of its own: with_server.sh GODWIT [SERVE FLAGS] -- COMMAND...
# The command gets the server's address as GODWIT_URL. Afterwards the server is told to stop and must end with 0.
# Exit 77: skipped. Environment: GODWIT_HEALTH=STATUS of GET /health to wait for (200)
set -euo pipefail
godwit=$1
shift
health=${GODWIT_HEALTH:-200}
unset GODWIT_HEALTH "${!GODWIT_TEST_@}" # which a server does not know
export GODWIT_INSTANCES_DEVICE=cpu # on machines with a GPU too
flags=()
while (($#)) && [[ $1 != -- ]]; do
  flags+=("$1")
  shift
done
shift

work=$(mktemp -d)
touch "$work/out" "$work/err" # the background job opens them later than we look
"$godwit" serve --listen 127.0.0.1:0 --control 127.0.0.1:0 "${flags[@]}" >"$work/out" 2>"$work/err" &
server=$!
fail() {
  echo "FAILED: $*"
  sed 's/^/server: /' "$work/out" "$work/err"
  exit 1
}
# shellcheck disable=SC2317 # called by the trap
finish() {
  kill -KILL "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

# The port is bound before the model is loaded; /health says 200 once requests are taken.
for ((tenths = 0; ; tenths++)); do
  url=$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$work/out")
  [[ -z $url ]] || break
  kill -0 "$server" 2>/dev/null || fail "the server ended before it was ready"
  ((tenths < 300)) || fail "the server said nothing for 30 s"
  sleep 0.1
done
status() { # of GET /health
  local host_port=${url#http://} line=""
  exec 3<>"/dev/tcp/${host_port%:*}/${host_port##*:}" || return 0
  printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
  read -r -t 5 line <&3 || true
  exec 3<&- 3>&-
  echo "$line" | cut -d' ' -f2
}
for ((tenths = 0; ; tenths++)); do
  [[ $(status 2>/dev/null) != "$health" ]] || break
  kill -0 "$server" 2>/dev/null || fail "the server ended while it loaded its model"
  ((tenths < 600)) || fail "/health was not $health after a minute"
  sleep 0.1
done

result=0
GODWIT_URL=$url "$@" || result=$?

kill -TERM "$server"
for ((tenths = 0; tenths < 300; tenths++)); do
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
kill -0 "$server" 2>/dev/null && fail "still running 30 s after SIGTERM"
ended=0
wait "$server" || ended=$?
((ended == 0)) || fail "the server ended with $ended after SIGTERM"
((result == 0)) || sed 's/^/server: /' "$work/err" | tail -40
exit "$result"
