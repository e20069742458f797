#!/usr/bin/env bash
# found_test.sh EXPLORE_PLANTED NUMBER BUGS_TXT: the bug is found within 60 s by one processor, by a promise that it is
# there to break, and replayed by the line that says how, with the bug and without it.
set -euo pipefail
explore=$1 number=$2 bugs=$3 limit=60 hangs=20 shrinks=1 # s of real time; five virtual minutes of talk take some
status=0
in=()
while read -r scenario; do in+=(--scenario "$scenario"); done < <(awk -v number="$number" '
  $1 == "bug" { mine = $2 == number }
  mine && $1 == "scenarios:" { for (i = 2; i <= NF; ++i) print $i }' "$bugs")
# Others may have the processor meanwhile.
out=$("$explore" --planted "$number" "${in[@]}" --seconds $((4 * limit)) --until-found --jobs 1 --wall-limit "$hangs" \
  --shrink-seconds "$shrinks") || status=$?
spent=$(mktemp)
trap 'rm -f "$spent"' EXIT
times >"$spent" # the second line: of what has been run
took=$(awk -F '[ms ]+' 'NR == 2 { print $1 * 60 + $2 + $3 * 60 + $4 }' "$spent")
if [[ $status != 1 ]] || awk -v took="$took" -v limit="$limit" 'BEGIN { exit !(took > limit) }'; then
  echo "bug $number was not found within $limit s of a processor, but after $took (exit $status)"
  exit 1
fi
printf '%s\n' "$out"
echo "bug $number was found after $took s of a processor; $limit s are allowed"
promise=$(sed -n 's/^BROKEN: \(.*\) ([0-9]* of the seeds of .*/\1/p' <<<"$out" | head -1)
allowed=$(awk -v number="$number" '$1 == "bug" && $2 == number { getline; sub(/^  breaks: /, ""); print; exit }' "$bugs")
if [[ -z $promise || " | $allowed | " != *" | $promise | "* ]]; then
  echo "bug $number was found by '$promise', not by one of '$allowed'"
  exit 1
fi
line=$(sed -n 's/^  again: \.\/run explore //p' <<<"$out" | head -1)
[[ -n $line ]] || {
  echo "no line that replays it"
  exit 1
}
read -ra arguments <<<"$line"
if "$explore" --planted "$number" --wall-limit "$hangs" "${arguments[@]}" >/dev/null 2>&1; then
  echo "its line does not show it again: $line"
  exit 1
fi
"$explore" "${arguments[@]}" || {
  echo "the scenario is broken without the bug, too: $line"
  exit 1
}
