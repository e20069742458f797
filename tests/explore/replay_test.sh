#!/usr/bin/env bash
# replay_test.sh EXPLORE: the same line does the same, event by event; another seed does not; parts can be left out.
set -euo pipefail
explore=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for scenario in $("$explore" --list | cut -d' ' -f1); do
  "$explore" --scenario "$scenario" --seed 7 --events "$dir/a" --json >"$dir/a.json"
  "$explore" --scenario "$scenario" --seed 7 --events "$dir/b" --json >"$dir/b.json"
  cmp "$dir/a" "$dir/b"
  cmp "$dir/a.json" "$dir/b.json"
  [[ -s $dir/a ]]
done
"$explore" --scenario chaos --seed 7 --events "$dir/a" >/dev/null
"$explore" --scenario chaos --seed 8 --events "$dir/b" >/dev/null
if cmp -s "$dir/a" "$dir/b"; then
  echo "seeds 7 and 8 do the same"
  exit 1
fi
[[ $("$explore" --scenario chaos --seed 7 --faults 0,2 --requests 1-2 --settings none | grep -cE '^  (fault [02]|request [12]):') == 4 ]]
