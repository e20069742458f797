#!/usr/bin/env bash
# trace_test.sh EXPLORE GODWIT: two recordings of one seed, by two processes, have the same messages, told in
# words.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in a b; do
  mkdir "$folder/$run"
  (cd "$folder/$run" && "$1" --scenario migrations --seed 3 --trace run.gwt >said)
done
"$2" trace diff "$folder/a/run.gwt" "$folder/b/run.gwt" >"$folder/said" || {
  cat "$folder/said" >&2
  exit 1
}
# What cannot be written is no success.
if "$1" --scenario calm --seed 5 --events /dev/full >"$folder/said" 2>&1; then
  echo "trace_test: events that were not written are not told of" >&2
  exit 1
fi
grep -q 'cannot write all events to /dev/full' "$folder/said"
