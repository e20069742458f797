#!/usr/bin/env bash
# A demo's recording, exported to OpenTelemetry: skip_or_run.sh GODWIT. Exit 77 (skipped) without node 18 or the package.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=tests/e2e/need_package.sh
source "$here/../need_package.sh"
need_package "$here" @opentelemetry/otlp-transformer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" demo --requests 8 --trace "$work/demo.gwt" --json >"$work/demo.json" 2>"$work/demo.log" || {
  cat "$work/demo.log"
  exit 1
}
"$1" trace export "$work/demo.gwt" --format otlp --output "$work/demo.otlp.json"
GODWIT_OTLP=$work/demo.otlp.json node --test "$here/otlp.test.js"
