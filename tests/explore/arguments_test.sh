#!/usr/bin/env bash
# arguments_test.sh EXPLORE: wrong usage is one line on standard error, and exit 2.
set -uo pipefail
explore=$1
wrong() {
  local text=$1 out status
  shift
  out=$("$explore" "$@" 2>&1 >/dev/null)
  status=$?
  if [[ $status != 2 || $(wc -l <<<"$out") != 1 || $out != *"$text"* ]]; then
    echo "explore $*: exit $status, '$out'; expected exit 2 and one line with '$text'"
    exit 1
  fi
}
wrong "no scenario is called 'nothing'" --scenario nothing
wrong "needs one --scenario" --seed 1
wrong "need a --seed" --faults 1
wrong "numbers like 0,3-5" --scenario calm --seed 1 --requests 3-1
wrong "--seeds" --seeds 0
wrong "nonsense" nonsense
wrong "no number of seconds" --seconds nan
wrong "--seed" --scenario calm --seed -1
wrong "there is no number 99: calm with seed 1" --scenario calm --seed 1 --requests 99
wrong "has none" --scenario calm --seed 1 --faults 0
wrong "does not have setting 3 at an extreme; it has none" --scenario calm --seed 1 --settings 3
for search in "--seeds 5" "--first 5" "--seconds 1" "--jobs 2" "--shrink-seconds 1" --keep-going --until-found; do
  read -ra words <<<"$search"
  wrong "${words[0]} is for a search" --scenario calm --seed 1 "${words[@]}"
done
wrong "it cannot be loaded" --seeds 1 --policy-plugin /no/such.so
wrong "--policy-arguments are of a plug-in" --seeds 1 --policy-arguments x
wrong "give one of them" --seeds 5 --seconds 1
wrong "need a --seed" --twice
wrong "on there are 1 seeds" --first 9223372036854775807 --seeds 2

"$explore" --list --json | grep -q '"scenario":"calm"' || { echo "--list --json is no JSON"; exit 1; }

"$explore" --scenario calm --seed 1 --twice | tail -1 | grep -qx clean || { echo "--twice does not run"; exit 1; }

# Who ends it hears what was found until then, and it does not count as all clean.
said=$(mktemp)
"$explore" --seeds 100000000 --scenario calm --jobs 1 >"$said" 2>&1 &
search=$!
trap 'kill -KILL $search 2>/dev/null; rm -f "$said"' EXIT
for ((tenths = 0; ; tenths++)); do # until a process of its own runs seeds
  ! grep -qs "^PPid:[[:space:]]*$search\$" /proc/[0-9]*/status || break
  ((tenths < 600)) || { echo "the search did not begin within 60 s"; exit 1; }
  sleep 0.1
done
kill -INT $search
wait $search
status=$?
if [[ $status != 1 ]] || ! grep -q '0 broken; interrupted$' "$said"; then
  echo "interrupted: exit $status, '$(cat "$said")'"
  exit 1
fi
