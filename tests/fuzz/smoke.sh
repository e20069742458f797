#!/usr/bin/env bash
# smoke.sh BUILD NAME SECONDS: the target's corpus, and some seconds more of what follows from it, the same each time:
# new inputs are for ./run fuzz to find. What fails is left in BUILD/crashes. 77, with a reason, where it was not built;
# 1 where there is no corpus to begin with.
set -euo pipefail
program=$1/bin/fuzz_$2
corpus=$(dirname "$(readlink -f "$0")")/corpus/$2
if [[ -z $(ls -A "$corpus" 2>/dev/null) ]]; then
  echo "there is nothing in $corpus"
  exit 1
fi
if [[ ! -x $program ]]; then
  echo "skipped: there is no $program; ./run fuzz builds it"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/found" "$1/crashes"
# libFuzzer's own code for a crash is 77, which is a skipped test's.
"$program" "$work/found" "$corpus" -seed=1 -max_total_time="$3" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
  -artifact_prefix="$1/crashes/$2-" -print_final_stats=1 -verbosity=0 -close_fd_mask=1 || exit 1
