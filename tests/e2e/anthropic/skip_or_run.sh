#!/usr/bin/env bash
# Anthropic's npm client against a server: skip_or_run.sh GODWIT. Exit 77 (skipped) without node 18 or the client.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=tests/e2e/need_package.sh
source "$here/../need_package.sh"
need_package "$here" @anthropic-ai/sdk
templates=$here/../../protocols/jinja/templates
opening=$(mktemp --suffix .jinja)
keys=$(mktemp)
trap 'rm -rf "$opening" "$keys"' EXIT
# One file after the other: some look at the server's metrics.
# shellcheck disable=SC2016 # for sh
"$here/../with_server.sh" "$1" --instances 2 -- sh -c 'for file; do node --test "$file" || exit; done' sh \
  "$here/messages.test.js" "$here/fields.test.js"
"$here/../with_server.sh" "$1" --chat-template "$templates/qwen2.5.jinja" -- node --test "$here/tools.test.js"
# A model that may think before it answers, and one whose template has it begin so.
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }}{{ "\n" }}{% endfor %}{% if add_generation_prompt %}assistant: <think>{{ "\n" }}{% endif %}' >"$opening"
"$here/../with_server.sh" "$1" --reasoning-parser think --chat-template "$templates/qwen3.jinja" -- node --test "$here/reasoning.test.js"
TEMPLATE_OPENS=1 "$here/../with_server.sh" "$1" --reasoning-parser think --chat-template "$opening" -- node --test "$here/reasoning.test.js"
GODWIT_HEALTH=503 "$here/../with_server.sh" "$1" --instances 0 -- node --test "$here/unavailable.test.js"
printf '# of the test\nfirst-key\n\n  second-key\n' >"$keys"
"$here/../with_server.sh" "$1" --api-key-file "$keys" --frontend-requests-max 4 -- node --test "$here/errors.test.js"
