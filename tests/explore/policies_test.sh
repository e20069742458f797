#!/usr/bin/env bash
# policies_test.sh EXPLORE PLUGIN: clusters have the policies of a plug-in; what is wrong with these is found, and the
# line that is printed finds it again.
set -uo pipefail
explore=$1 plugin=$2
fail() {
  echo "$1"
  exit 1
}
out=$("$explore" --seeds 60 --jobs 2 --policy-plugin "$plugin" --policy-arguments largest) || fail "not clean: $out"
again=$("$explore" --scenario migrations --seed 7 --policy-plugin "$plugin" --policy-arguments largest) || fail "$again"
[[ $again == *"dispatch lowest"* ]] || fail "its dispatch policy is not in use: $again"
[[ $again != "$("$explore" --scenario migrations --seed 7)" ]] || fail "the policies change nothing"
out=$("$explore" --seeds 60 --jobs 2 --until-found --policy-plugin "$plugin" --policy-arguments throws)
[[ $? == 1 && $out == *"complaint of the runtime"*"there is no table"* ]] || fail "a policy that throws is not found: $out"
lost=$("$explore" --seeds 5 --scenario calm --until-found --policy-plugin "$plugin" --policy-arguments 'no prophet')
[[ $? == 1 && $lost == *"no prophet"* ]] || fail "a length predictor that throws is not found: $lost"
line=$(sed -n "s/^  again: .\/run explore //p" <<<"$out")
[[ $line == *"--policy-plugin '$plugin' --policy-arguments 'throws'" ]] || fail "the line lacks the policies: $line"
eval "set -- $line"
out=$("$explore" "$@")
[[ $? == 1 && $out == *"there is no table"* ]] || fail "not found again: $out"
