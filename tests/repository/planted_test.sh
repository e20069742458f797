#!/usr/bin/env bash
# Plants one forbidden include (or call) at a time in a small tree and expects arrows.sh to find it; then a clean tree.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

reset_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{protocols,runtime,gpu,transport,actors}/include/godwit
  local header
  for header in protocols/messages/ids runtime/async/task runtime/clock transport/http/server gpu/executor actors/node; do
    mkdir -p "$tree/${header%%/*}/include/godwit/${header%/*}"
    echo '#include <vector>' >"$tree/${header%%/*}/include/godwit/$header.hpp"
  done
  mkdir -p "$tree"/protocols/openai "$tree"/gpu/model "$tree"/actors/main "$tree"/examples "$tree"/transport/http
  echo 'struct secret;' >"$tree/gpu/model/secret.hpp"
}

forbidden() { # FILE LINE EXPECTED: the checker names FILE and says EXPECTED
  reset_tree
  mkdir -p "$tree/$(dirname "$1")"
  printf '%s\n' "$2" >>"$tree/$1"
  local output
  if output=$("$here/arrows.sh" "$tree"); then
    echo "FAILED: '$2' in $1 was not noticed"
    failures=$((failures + 1))
  elif ! grep -q "^$1:[0-9]*: .*$3" <<<"$output"; then
    echo "FAILED: '$2' in $1 gave: $output"
    failures=$((failures + 1))
  fi
}

allowed() { # FILE LINE
  reset_tree
  mkdir -p "$tree/$(dirname "$1")"
  printf '%s\n' "$2" >>"$tree/$1"
  local output
  if ! output=$("$here/arrows.sh" "$tree"); then
    echo "FAILED: '$2' in $1 is allowed, but: $output"
    failures=$((failures + 1))
  fi
}

forbidden protocols/ledger.cpp '#include <godwit/runtime/clock.hpp>' 'protocols -> runtime'
forbidden protocols/ledger.cpp '#include <caf/all.hpp>' 'CAF'
forbidden protocols/ledger.cpp '#include <boost/json.hpp>' 'Boost.JSON'
forbidden protocols/ledger.cpp '#include <thread>' 'only decides'
forbidden protocols/ledger.cpp '#include <sys/socket.h>' 'operating system'
forbidden protocols/ledger.cpp 'auto now = std::chrono::steady_clock::now();' 'clock'
forbidden protocols/ledger.cpp 'std::mt19937 engine;' 'random'
forbidden protocols/include/godwit/protocols/openai/api.hpp '#include <boost/json.hpp>' 'private'
forbidden runtime/scope.cpp '#include <godwit/gpu/executor.hpp>' 'runtime -> gpu'
forbidden runtime/scope.cpp '#include <godwit/actors/node.hpp>' 'runtime -> actors'
forbidden runtime/log.cpp '#include <CLI/CLI.hpp>' 'CLI11'
forbidden runtime/log.cpp 'auto level = std::getenv("LEVEL");' 'getenv'
forbidden runtime/log.cpp '#include <zstd.h>' 'zstd is private'
forbidden runtime/include/godwit/runtime/trace/file.hpp '#include <zstd.h>' 'zstd is private'
forbidden actors/http_gate.cpp '#include <openssl/crypto.h>' 'OpenSSL is private'
forbidden transport/http/session.cpp '#include <godwit/runtime/clock.hpp>' 'only its async/'
forbidden transport/http/session.cpp '#include <godwit/gpu/executor.hpp>' 'transport -> gpu'
forbidden transport/include/godwit/transport/http/server.hpp '#include <boost/asio.hpp>' 'private'
forbidden gpu/model/config.cpp '#include <godwit/transport/http/server.hpp>' 'gpu -> transport'
forbidden gpu/executor.cpp '#include <boost/json.hpp>' 'model/ and sim/ only'
forbidden actors/node.cpp '#include <caf/event_based_actor.hpp>' 'CAF'
forbidden actors/node.cpp '#include <spdlog/fmt/fmt.h>' 'spdlog'
forbidden actors/node.cpp '#include "model/secret.hpp"' 'not a private header'
forbidden actors/node.cpp '#include "../gpu/model/secret.hpp"' 'climbs'
forbidden actors/node.cpp 'auto now = std::chrono::system_clock::now();' 'clock'
forbidden actors/node.cpp '#include <godwit/gpu/missing.hpp>' 'no public header'
forbidden actors/node.cpp '#include <acme/anvil.hpp>' 'unknown dependency'
forbidden examples/two.cpp '#include "../gpu/model/secret.hpp"' 'installed headers'

allowed runtime/scope.cpp '#include <caf/all.hpp>'
allowed runtime/trace/compression.cpp '#include <zstd.h>'
allowed transport/http/session.cpp '#include <boost/beast.hpp>'
allowed transport/http/session.cpp '#include <godwit/runtime/async/task.hpp>'
allowed gpu/model/config.cpp '#include "model/secret.hpp"'
allowed protocols/openai/parse.cpp '#include <boost/json.hpp>'
allowed protocols/ledger.cpp '// unlike std::chrono::steady_clock, the caller says what time it is'
allowed actors/main/serve.cpp 'auto now = std::chrono::system_clock::now();'
allowed actors/main/table.cpp '#include <spdlog/fmt/fmt.h>'
allowed examples/two.cpp '#include <godwit/actors/node.hpp>'

((failures == 0)) && echo "every planted violation was found"
