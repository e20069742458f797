#!/usr/bin/env bash
# night_test.sh BUILD_FOLDER: every line of tests/night.txt names tests that there are.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
names=$(ctest --test-dir "$1" --show-only | sed -n 's/^ *Test *#[0-9]*: //p')
((${#names} > 10000)) || { echo "ctest lists few tests: $names" && exit 1; }
status=0
while read -r line; do
  [[ -z $line || $line == \#* ]] || grep -qE -- "$line" <<<"$names" || { echo "no test is called $line" && status=1; }
done <"$here/../night.txt"
exit $status
