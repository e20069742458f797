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
