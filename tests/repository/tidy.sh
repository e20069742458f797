#!/usr/bin/env bash
# What no compiler notices: carriage returns, paths of one developer's machine, unfinished marks, dead links in the docs.
# Prints one line a finding and exits 1 when there is any: tidy.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

files() { # tracked files; all files where git does not know this folder as a repository's root
  if [[ "$(git rev-parse --show-toplevel 2>/dev/null)" -ef $PWD ]]; then
    git ls-files -z
    return
  fi
  find . \( -name .git -o -name build -o -name node_modules \) -prune -o -type f -printf '%P\0'
}
text=()
while IFS= read -r -d '' file; do
  [[ -f $file && ! -L $file ]] || continue
  case $file in
  *.safetensors | *.bin | *.png | */tokenizer.json | tests/fuzz/corpus/* | tests/repository/tidy.sh) ;;
  *) text+=("$file") ;;
  esac
done < <(files)
((${#text[@]} > 20)) || {
  echo "only ${#text[@]} files found"
  exit 1
}

findings=0
report() {
  echo "$*"
  findings=$((findings + 1))
}
while read -r line; do report "carriage return: $line"; done < <(grep -lI $'\r' -- "${text[@]}" || true)
while read -r line; do report "path of one machine: $line"; done < <(grep -nIE '(^|[^A-Za-z0-9_.])/(home/[a-z]|root/|work/|Users/)' -- "${text[@]}" | cut -c1-160 || true)
while read -r line; do report "unfinished: $line"; done < <(grep -nIwE 'TODO|FIXME|XXX' -- "${text[@]}" | cut -c1-160 || true)

# Comments that send the reader to a page which is not there.
while IFS=: read -r file page; do
  [[ -e $page ]] || report "no such page: $file names $page"
done < <(grep -oIE '\bdocs/[A-Za-z_/]+\.md' -- "${text[@]}" | sort -u || true)
while read -r line; do report "names a page outside the repository: $line"; done \
  < <(grep -nIE '(DESIGN|STYLE)\.md|spec/[a-z-]+\.md' -- "${text[@]}" | cut -c1-160 || true)

# log.levels takes the names that lines of the log bear, and no others.
names=actors/main/logging.cpp
while IFS=: read -r file name; do
  case $file in runtime/* | transport/* | gpu/* | actors/*) ;; *) continue ;; esac
  grep -qF "$name" "$names" || report "a component that log.levels does not know: $file, $name; $names lists them"
done < <(grep -oIE 'component\("[a-z_]+"' -- "${text[@]}" | sed 's/component(//' | sort -u || true)

for page in "${text[@]}"; do
  [[ $page == *.md ]] || continue
  while read -r link; do
    target=${link%%#*}
    [[ -z $target || $target == *:* ]] && continue
    [[ -e $(dirname "$page")/$target ]] || report "dead link in $page: $link"
  done < <(grep -oE '\]\([^) ]+\)' "$page" | sed 's/^](//; s/)$//' || true)
done
((findings == 0)) && echo "tidy: ${#text[@]} files"
