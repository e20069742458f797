#!/usr/bin/env bash
# That godwit takes the command lines of examples/deploy: deploy_test.sh GODWIT.
set -euo pipefail
godwit=$1
unset "${!GODWIT_TEST_@}" # which a server does not know
cd "$(dirname "$0")/../../examples/deploy"

# What the machine would put in, and the model that every build has.
# shellcheck disable=SC2016 # Kubernetes' own words
filled() { sed -e 's/\$(POD_IP)/127.0.0.1/; s/\$(POD_NAME)/member-1/; s#^/model$#default#'; }

# The argument lists of kubernetes.yaml, one line a list, words apart by tabs.
lists=$(awk '/^ *args:$/ {inside = 1; line = ""; next}
  inside && /^ *- / {sub(/^ *- /, ""); sub(/ +#.*/, ""); line = line (line == "" ? "" : "\t") $0; next}
  inside {print line; inside = 0}' kubernetes.yaml)
count=0
while IFS=$'\t' read -r -a words; do
  mapfile -t words < <(printf '%s\n' "${words[@]}" | filled)
  "$godwit" "${words[@]}" --print-config >/dev/null || {
    echo "kubernetes.yaml: godwit refuses: ${words[*]}" >&2
    exit 1
  }
  if [[ ${words[0]} == @(node|frontend) && " ${words[*]} " != *" --join="* ]]; then
    echo "kubernetes.yaml: a ${words[0]} joins nobody" >&2
    exit 1
  fi
  count=$((count + 1))
done <<<"$lists"
((count == 3)) || {
  echo "kubernetes.yaml: $count command lines instead of 3" >&2
  exit 1
}

# The units' settings are in files of their own.
for unit in *.service; do
  read -r -a words < <(sed -n 's#^ExecStart=/usr/local/bin/godwit ##p' "$unit" | sed 's# --config [^ ]*##')
  "$godwit" "${words[@]}" --print-config >/dev/null
  if [[ ${words[0]} == node && " ${words[*]} " != *" --join "* ]]; then
    echo "$unit: a node joins nobody" >&2
    exit 1
  fi
done

mapfile -t words < <(sed -n 's/^CMD \[\(.*\)\]$/\1/p' Dockerfile | tr -d '" ' | tr ',' '\n')
"$godwit" "${words[@]}" --print-config >/dev/null
echo "deploy: right"
