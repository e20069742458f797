#!/usr/bin/env bash
# night_test.sh BUILD_FOLDER: every line of tests/night.txt names tests that there are, and ctest takes them all at once, as
# `./run test` gives them to it.
set -euo pipefail
night=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../night.txt
folder=$(mktemp -d) # ctest writes a log where it is run: not over that of the run which this is part of
trap 'rm -rf "$folder"' EXIT
echo "subdirs(\"$1\")" >"$folder/CTestTestfile.cmake"
listed() { ctest --test-dir "$folder" --show-only "$@" 2>&1 | sed -n 's/^ *Test *#[0-9]*: //p; /xpression/p'; }
names=$(listed)
mapfile -t lines < <(grep -v -e '^#' -e '^$' "$night")
status=0
for line in "${lines[@]}"; do
  grep -qE -- "$line" <<<"$names" || { echo "no test is called $line" && status=1; }
done
all=$(IFS='|' && echo "${lines[*]}")
diff <(listed --exclude-regex "$all") <(grep -vE -- "$all" <<<"$names") || { echo "ctest leaves out others" && status=1; }
exit $status
