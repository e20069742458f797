#!/usr/bin/env bash
# found_test.sh EXPLORE_PLANTED NUMBER: the bug is found within 200 s by one processor, and replayed by the line that says
# how, with the bug and without it. Most are found within a second, none needs ten where nothing else runs.
set -euo pipefail
explore=$1 number=$2
status=0
out=$("$explore" --planted "$number" --seconds 200 --until-found --jobs 1 --wall-limit 4) || status=$?
if [[ $status != 1 ]]; then
  echo "bug $number was not found within 200 s (exit $status)"
  exit 1
fi
printf '%s\n' "$out"
line=$(sed -n 's/^  again: \.\/run explore //p' <<<"$out" | head -1)
[[ -n $line ]] || {
  echo "no line that replays it"
  exit 1
}
read -ra arguments <<<"$line"
if "$explore" --planted "$number" --wall-limit 4 "${arguments[@]}" >/dev/null 2>&1; then
  echo "its line does not show it again: $line"
  exit 1
fi
"$explore" "${arguments[@]}" || {
  echo "the scenario is broken without the bug, too: $line"
  exit 1
}
