#!/usr/bin/env bash
# The arrows of docs/ARCHITECTURE.md, checked on every #include: arrows.sh [ROOT]
# Prints one line a violation, "FILE:LINE: what is wrong", and exits 1 when there is any.
set -euo pipefail
root=$(readlink -f "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}")
cd "$root"

list() {
  find protocols runtime transport gpu actors examples -type f \( -name '*.hpp' -o -name '*.cpp' \) -print 2>/dev/null | sort
}

list | awk '
function bad(why) { print file ":" NR_in ": " why; violations++ }
function exists(path,   line, status) {
  if (!(path in known)) { status = (getline line < path); close(path); known[path] = (status >= 0) }
  return known[path]
}
function starts(text, prefix) { return substr(text, 1, length(prefix)) == prefix }

# A third-party or system header: who may name it, and whether a public header may.
function third_party(name,   ok) {
  ok = 0
  if (name ~ /^caf\//) {
    if (folder != "runtime") bad("CAF is named in runtime/ only: <" name ">")
  } else if (name ~ /^(spdlog|fmt)\//) {
    if (folder != "runtime" && !(name ~ /^spdlog\/fmt\// && starts(file, "actors/main/"))) bad("spdlog is named in runtime/ only: <" name ">")
  } else if (name ~ /^toml\+\+\//) {
    if (!starts(file, "runtime/config/")) bad("toml++ is named in runtime/config/ only: <" name ">")
  } else if (name ~ /^CLI\//) {
    if (!starts(file, "runtime/config/") && !starts(file, "actors/main/")) bad("CLI11 is named in runtime/config/ and actors/main/ only: <" name ">")
  } else if (name ~ /^boost\/json/) {
    if (public) bad("Boost.JSON is private: <" name "> in a public header")
    else if (folder == "protocols" && file !~ /^protocols\/(openai|anthropic|grammar)\//) bad("in protocols/ Boost.JSON is for openai/, anthropic/ and grammar/ only: <" name ">")
    else if (folder == "gpu" && !starts(file, "gpu/model/") && !starts(file, "gpu/sim/")) bad("in gpu/ Boost.JSON is for model/ and sim/ only: <" name ">")
    else if (folder == "runtime" || folder == "transport") bad("Boost.JSON is not for " folder "/: <" name ">")
  } else if (name ~ /^openssl\// || name ~ /^boost\/asio\/ssl/) {
    if (public || file !~ /^transport\/(http|tls)\//) bad("OpenSSL is private to http/ and tls/ in transport/: <" name ">")
  } else if (name ~ /^boost\//) {
    if (public) bad("Boost is private: <" name "> in a public header")
    else if (folder != "transport") bad("Boost.Asio and Beast are named in transport/ only: <" name ">")
  } else if (name ~ /^(zstd|zdict)/) {
    if (public || !starts(file, "runtime/trace/")) bad("zstd is private to runtime/trace/: <" name ">")
  } else if (name ~ /^(ucp|uct|ucs|ucm)\//) {
    if (public || !starts(file, "transport/ucx/")) bad("UCX is private to transport/ucx/: <" name ">")
  } else if (name ~ /^(cuda|cublas|nvml|nvtx|curand)/) {
    if (public || !starts(file, "gpu/cuda/")) bad("CUDA is private to gpu/cuda/: <" name ">")
  } else if (name ~ /^[a-z_]+$/) {
    if (folder == "protocols" && name ~ /^(thread|mutex|shared_mutex|condition_variable|future|atomic|stop_token|semaphore|latch|barrier|random|fstream|iostream|filesystem|coroutine)$/)
      bad("protocols/ only decides; it has no use for <" name ">")
  } else if (name ~ /^(immintrin|x86intrin|cpuid)\.h$/) {
    if (folder != "gpu") bad("vector instructions are for gpu/: <" name ">")
  } else if (name ~ /^(sys\/|linux\/|netinet\/|arpa\/|net\/)?[a-z_0-9]+\.h$/) {
    if (folder == "protocols" || (folder == "actors" && !starts(file, "actors/main/"))) bad("the operating system is not for " folder "/: <" name ">")
  } else bad("unknown dependency <" name ">; docs/ARCHITECTURE.md names all there are")
}

function own(name,   to, rest) { # <godwit/TO/REST>
  to = name; sub(/^godwit\//, "", to); rest = to
  sub(/\/.*/, "", to); sub(/^[^\/]*\/?/, "", rest)
  if (!exists(to "/include/" name)) bad("no public header <" name ">")
  if (to == folder || folder == "actors" || folder == "examples") return
  if (to == "protocols") return
  if (to == "runtime" && (folder == "transport" || folder == "gpu") && starts(rest, "async/")) return
  bad("arrow " folder " -> " to (to == "runtime" ? " (only its async/)" : "") " is forbidden: <" name ">")
}

function quoted(name,   beside) {
  beside = file; sub(/[^\/]*$/, "", beside)
  if (public) bad("a public header names others as <godwit/...>, not \"" name "\"")
  else if (name ~ /\.\./) bad("\"" name "\" climbs; name it from the root of the folder")
  else if (!exists(beside name) && !exists(folder "/" name)) bad("\"" name "\" is not a private header of " folder "/")
}

# Time and chance are constructor arguments where decisions are made.
function words(line) {
  if (folder == "protocols" || (folder == "actors" && !starts(file, "actors/main/"))) {
    if (line ~ /(steady_clock|system_clock|high_resolution_clock|utc_clock|clock_gettime|gettimeofday)/) bad("a clock in " folder "/; take the time as an argument")
    if (line ~ /(random_device|mt19937|[^a-z_]s?rand\(|drand48)/) bad("random numbers in " folder "/; take a source as an argument")
  }
  if (line ~ /(std::|[^a-z_:])(secure_)?getenv\(/ && !starts(file, "actors/main/")) bad("getenv outside actors/main/")
}

{
  file = $0; folder = file; sub(/\/.*/, "", folder); public = (file ~ /^[a-z]+\/include\//)
  NR_in = 0; comment = 0
  while ((getline line < file) > 0) {
    NR_in++
    if (comment) { if (line !~ /\*\//) continue; sub(/^.*\*\//, "", line); comment = 0 }
    gsub(/\/\*.*\*\//, "", line)
    if (line !~ /^[ \t]*#[ \t]*include/) sub(/\/\/.*$/, "", line)
    if (line ~ /\/\*/) { sub(/\/\*.*$/, "", line); comment = 1 }
    if (line ~ /^[ \t]*#[ \t]*include[ \t]*</) {
      name = line; sub(/^[^<]*</, "", name); sub(/>.*$/, "", name)
      if (name ~ /^godwit\//) own(name); else third_party(name)
    } else if (line ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
      name = line; sub(/^[^"]*"/, "", name); sub(/".*$/, "", name)
      if (folder == "examples") { if (name ~ /\.\./) bad("examples use installed headers only: \"" name "\"") }
      else quoted(name)
    } else words(line)
  }
  close(file); files++
}
END {
  if (!files) { print "no source files below " ENVIRON["PWD"]; exit 1 }
  if (violations) { print violations " violation(s) in " files " files"; exit 1 }
  print "arrows: " files " files, no violation"
}'
