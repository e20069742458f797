#!/usr/bin/env bash
# The npm openai client against a server: skip_or_run.sh GODWIT. Exit 77 (skipped) without node 18 or the client.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=tests/e2e/need_package.sh
source "$here/../need_package.sh"
need_package "$here" openai
# One file after the other: some count all tokens of the server. Not every node 18 has --test-concurrency.
# shellcheck disable=SC2016 # for sh
"$here/../with_server.sh" "$1" --instances 2 -- sh -c 'for file; do node --test "$file" || exit; done' sh \
  "$here/openai.test.js" "$here/responses.test.js" "$here/fields.test.js" "$here/effects.test.js"
# The same model, told its conversations by a template that shows tools.
"$here/../with_server.sh" "$1" --chat-template "$here/../../protocols/jinja/templates/qwen2.5.jinja" -- node --test "$here/tools.test.js"
# A model that may think before it answers, and one whose template has it begin so.
opening=$(mktemp --suffix .jinja)
keys=$(mktemp)
adapters=$(mktemp -d)
trap 'rm -rf "$opening" "$keys" "$adapters"' EXIT
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }}{{ "\n" }}{% endfor %}{% if add_generation_prompt %}assistant: <think>{{ "\n" }}{% endif %}' >"$opening"
"$here/../with_server.sh" "$1" --reasoning-parser think --chat-template "$here/../../protocols/jinja/templates/qwen3.jinja" -- node --test "$here/reasoning.test.js"
TEMPLATE_OPENS=1 "$here/../with_server.sh" "$1" --reasoning-parser think --chat-template "$opening" -- node --test "$here/reasoning.test.js"
# One with adapters.
"$1" model adapter --out "$adapters/sql" --rank 8 --seed 1
"$1" model adapter --out "$adapters/law" --rank 16 --seed 2
ADAPTERS=$adapters "$here/../with_server.sh" "$1" --instances 2 --lora-dir "$adapters" -- node --test "$here/adapters.test.js"
# One that refuses what it would answer late.
"$here/../with_server.sh" "$1" --instances 2 --early-rejection -- node --test "$here/objectives.test.js"
# One without instances.
GODWIT_HEALTH=503 "$here/../with_server.sh" "$1" --instances 0 -- node --test "$here/unavailable.test.js"
# One that asks for keys and holds few requests.
printf '# of the test\nfirst-key\n\n  second-key\n' >"$keys"
"$here/../with_server.sh" "$1" --api-key-file "$keys" --frontend-requests-max 4 -- node --test "$here/errors.test.js"
