#!/usr/bin/env bash
# build.sh SOURCE: all targets, into SOURCE/build/fuzz. 77, with the reason, where clang, its libFuzzer or its standard
# library is missing.
set -euo pipefail
cd "$1"
if ! clang++ -fsanitize=fuzzer,address -x c++ -o /dev/null - 2>/dev/null <<'END'; then
#include <string>
extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, std::size_t) { return 0; }
END
  echo "skipped: there is no clang that builds for libFuzzer; ./run fuzz installs what it needs"
  exit 77
fi
cmake --preset fuzz || cmake --fresh --preset fuzz # a folder that came with a copy of a checkout is of another one
cmake --build build/fuzz
