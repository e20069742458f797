#!/usr/bin/env bash
# effects_test.sh EXPLORE: seeds that no other test runs bring about all that the search counts: faults, autoscaling, the
# ends of migrations, errors. Where one of these never happens the search does not look there.
set -euo pipefail
out=$("$1" --seeds 2000 --first 20001 --jobs 1 --json)
# So rare that it may be missing among so many.
rare='scaling keep|migration destination_busy|migration lost|migration home_refused|migration source_busy'
[[ $out == *'"seen":{"cut":'* ]] || { echo "it does not say what was seen: $out"; exit 1; }
never=$(grep -o '"seen":{[^}]*}' <<<"$out" | grep -oE '"[^":]+":0\b' | grep -vE "\"($rare)\"" || true)
[[ -z $never ]] || { echo "never seen: $never"; exit 1; }
