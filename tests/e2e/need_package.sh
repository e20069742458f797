# shellcheck shell=bash
# For sourcing. need_package DIRECTORY PACKAGE: ends the script with 77 (skipped) without node 18 or the npm package.
need_package() {
  if ! command -v node >/dev/null; then
    echo "SKIPPED: no node on PATH"
    exit 77
  fi
  if ! node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)'; then
    echo "SKIPPED: node $(node --version) is older than 18"
    exit 77
  fi
  if [[ ! -d $1/node_modules/$2 || ! -f $1/node_modules/.package-lock.json ]]; then # which npm writes last
    echo "SKIPPED: npm's $2 is not installed; run: (cd tests/e2e/$(basename "$1") && npm ci)"
    exit 77
  fi
}
