#!/usr/bin/env bash
# The page of recordings in Chromium: skip_or_run.sh GODWIT BROWSER_RECORDINGS. Exit 77 (skipped) without node 18,
# playwright-core or Chromium.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
skip() {
  echo "SKIPPED: $*"
  exit 77
}
command -v node >/dev/null || skip "no node on PATH"
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' || skip "node $(node --version) is older than 18"
[[ -d $here/node_modules/playwright-core && -f $here/node_modules/.package-lock.json ]] || # which npm writes last
  skip "playwright-core is not installed; run: (cd tests/browser && npm ci)"
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome-stable || true)
[[ -n $chromium ]] || skip "no Chromium on PATH; as root: apt-get install chromium"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2" "$work"
"$1" sim --instances 4 --requests 40 --rate 20 --record "$work/simulated.gwt" >/dev/null 2>&1
for name in served hostile large simulated; do
  "$1" trace ui "$work/$name.gwt" --output "$work/$name.html"
done
"$1" trace ui "$work/served.gwt" --request 3 --output "$work/chosen.html"
BROWSER_WORK=$work BROWSER_PROGRAM=$chromium BROWSER_GODWIT=$1 \
  "$here/../e2e/with_server.sh" "$1" --instances 2 --http-debug -- node --test "$here/page.test.js" "$here/made.test.js"
