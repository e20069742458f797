#!/usr/bin/env bash
# bundle.sh BUILD OUT PROGRAM...: puts into OUT what a bare GPU machine needs to check godwit: the named programs of
# BUILD/bin, the CUDA plug-in, the libraries that such a machine lacks, the golden models of a test, and run-checks.sh.
# At most 46 MiB, since uploads may be bounded: where it is more, most of it is packed, and run-checks.sh unpacks it.
set -euo pipefail
scripts=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
source=$(cd "$scripts/../.." && pwd)

die() {
  echo "bundle: $*" >&2
  exit 1
}
(($# >= 3)) || die "usage: bundle.sh BUILD OUT PROGRAM..."
build=$1 out=$2
shift 2
programs=("$@")
size_max=$((46 << 20))
# GODWIT_BUNDLE_MAX: for the test of this script.
size_max=${GODWIT_BUNDLE_MAX:-$size_max}

rm -rf "$out"
mkdir -p "$out"/{bin,lib/cxx,golden,bench}

# Debug information stays at home.
place() { strip --strip-unneeded -o "$2" "$1" 2>/dev/null || cp "$1" "$2"; }

files=()
for name in "${programs[@]}"; do
  [[ -f $build/bin/$name ]] || die "$build/bin/$name is not there"
  place "$build/bin/$name" "$out/bin/$name"
  chmod +x "$out/bin/$name"
  files+=("$out/bin/$name")
done
plugin=$build/bin/libgodwit_cuda.so
if [[ -f $plugin ]]; then
  place "$plugin" "$out/bin/libgodwit_cuda.so"
  files+=("$out/bin/libgodwit_cuda.so")
fi

# What every Linux has, and what comes with NVIDIA's driver or toolkit, stays out.
of_the_machine='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libutil|libnss_.*|libcuda|libcublas|libcublasLt|libcudart|libnv.*|libnccl)\.so'
libraries() { # of one file, transitively, as the loader of this machine finds them; a script has none
  { ldd "$1" 2>/dev/null || true; } | sed -n 's/^[[:space:]]*\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p'
}
add_libraries() {
  local name path
  while read -r name path; do
    [[ $name =~ $of_the_machine ]] && continue
    case $name in
    # Those of the machine where they are new enough: ours want as new a glibc as they were built with.
    libstdc++.so.* | libgcc_s.so.*) place "$path" "$out/lib/cxx/$name" ;;
    *) place "$path" "$out/lib/$name" ;;
    esac
  done < <(for file in "$@"; do libraries "$file"; done | sort -u)
  return 0
}
add_libraries "${files[@]}"
# UCX loads its transports at run time, from a folder beside it.
ucx=$(for file in "${files[@]}"; do libraries "$file"; done | sed -n 's/^libuct\.so[^ ]* //p' | head -1)
if [[ -n $ucx && -e $(dirname "$ucx")/ucx/libuct_cma.so.0 ]]; then
  mkdir -p "$out/lib/ucx"
  place "$(dirname "$ucx")/ucx/libuct_cma.so.0" "$out/lib/ucx/libuct_cma.so.0"
fi

# The plug-in says which cuBLASLt it wants.
library=""
if [[ -f $out/bin/libgodwit_cuda.so ]]; then
  library=$({ readelf -d "$out/bin/libgodwit_cuda.so" 2>/dev/null || true; } | sed -n 's/.*(NEEDED).*\[\(libcublasLt\.so[^]]*\)\]/\1/p')
fi
printf '%s' "$library" >"$out/cublas.name"
newest() { # PATTERN FILE...: the highest version of such a symbol that the files want
  local pattern=$1 file
  shift
  for file in "$@"; do objdump -T "$file" 2>/dev/null || true; done | grep -o "$pattern" | sort -Vu | tail -1 || true
}
glibc=$(newest 'GLIBC_2\.[0-9]*' "$out"/bin/* "$out"/lib/*.so*)
glibc_cxx=$(newest 'GLIBC_2\.[0-9]*' "$out"/lib/cxx/*)
newest 'GLIBCXX_3\.4\.[0-9]*' "$out"/bin/* "$out"/lib/*.so* >"$out/cxx.version"

# gpu_plugin_test compares with it, and looks beside its own folder.
mkdir -p "$out"/golden/{quantized,gguf}
cp -r "$source"/tests/gpu/model/golden/{mistral,phi3} "$out/golden/"
cp -r "$source"/tests/gpu/model/golden/quantized/{gptq4-act-order,awq4,fp8-block,packed4-asym} "$out/golden/quantized/"
cp -r "$source"/tests/gpu/model/golden/gguf/{llama-legacy,qwen2-q8_0} "$out/golden/gguf/"
cp "$source/tests/bench/gpu/reference.py" "$out/bench/"
cp "$scripts/run-checks.sh" "$out/run-checks.sh"
chmod +x "$out/run-checks.sh"
{
  printf 'godwit %s' "$(sed -n 's/^project(godwit VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt" | head -1)"
  git -C "$source" log -1 --format=', commit %h of %cs' 2>/dev/null || echo
} >"$out/version.txt"

# By what is there, what says most first: name, seconds (LEAST-MOST where --limit leaves it LEAST: it says little in less),
# whether it may skip everything on a GPU, command. For a machine that ends a command after ten minutes, docs/gpu-validation.md.
has() { [[ -x $out/bin/$1 ]]; }
check() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4"; }
# After an illegal access a process has no GPU any more: each suite in its own, so that one hides no other's results.
suites() { "$build/bin/$1" --gtest_list_tests 2>/dev/null | sed -n 's/^\([A-Za-z][A-Za-z0-9_]*\(\/[A-Za-z0-9_]*\)*\.\)\( .*\)*$/\1/p'; }
tests_of() {
  local suite need found=0
  while read -r suite; do
    found=1 need=must
    case $suite in *Divided* | *TensorParallel* | *OnTwo* | *Staged*) need=may ;; esac # want several GPUs
    check "$1: ${suite%.}" 120 "$need" "$1 --gtest_filter='$suite*'"
  done < <(suites "$1")
  ((found)) || check "$1" 120 must "$1"
}
sanitizer() { check "${2%% *} of ${1%_test}" 150-540 must "compute-sanitizer --tool $2 --error-exitcode 1 bin/$1"; }
# cuBLASLt tries calls that fail, which memcheck would count.
memcheck() { sanitizer "$1" "memcheck --report-api-errors no"; }
{
  echo "# check, seconds it may take, must or may, command (run in this folder, with bin/ in PATH, lib/ found, and how many GPUs there are in GPUS)"
  for name in "${programs[@]}"; do
    if [[ $name == *_test ]]; then tests_of "$name"; fi
  done
  if has godwit; then
    # Without --deterministic a question may be answered otherwise beside others, and the demo compares answers.
    check "demo" 120 must "godwit demo --device cuda --deterministic --json"
    # It has two instances, each of which wants two GPUs of its own.
    check "divided demo (four GPUs, NCCL)" 120 may "((GPUS >= 4)) || { echo 'skipped: fewer than four GPUs'; exit 77; }; \
godwit demo --device cuda --deterministic --tensor-parallel 2 --json"
  fi
  if has bench_gpu; then check "bench_gpu" 180-300 must "bench_gpu --json"; fi
  # In one process instances do not take turns on the device: these are the lines to judge by.
  if has bench_migration; then check "bench_migration in one process" 150-480 must "bench_migration --cuda --json in_process"; fi
  for name in "${programs[@]}"; do
    [[ $name == *_test && $name != gpu_plugin_test && $name != gpu_migration_test ]] || continue
    memcheck "$name"
    sanitizer "$name" synccheck
    sanitizer "$name" racecheck
  done
  if has gpu_plugin_test; then memcheck gpu_plugin_test; fi
  if has bench_gpu_kernels; then check "bench_gpu_kernels" 300 must "bench_gpu_kernels"; fi
  if has bench_migration; then check "bench_migration of two" 150-480 must "bench_migration --cuda --json --two-processes"; fi
  if has godwit; then check "profile" 90-150 must "godwit profile --device cuda --json"; fi
  check "bench reference (PyTorch, Triton)" 300 may "python3 bench/reference.py"
} >"$out/checks.tsv"

cat >"$out/README.md" <<END
# Checks of godwit on a GPU

    ./run-checks.sh --list               # what they are
    ./run-checks.sh                      # all of them
    ./run-checks.sh --only _test         # those with this text in their names
    ./run-checks.sh --only bench_gpu --limit 240
    ./run-checks.sh --budget 560 --limit 60   # a first look where a command is ended after ten minutes

The report is results/YYYY-MM-DD-DEVICE[-TEXT].md, and beside it a .tar.gz of all output; both are written anew after every
check, so that what was found is there where a machine ends the whole. Put the report into docs/gpu-results/ of the
repository.

The checks come in the order of what they say, and take some half an hour, those under compute-sanitizer as long again.
With --budget the script ends by itself in that many seconds, and the report says what a next call has to take up. After an
illegal access or the like the tests of that suite run one by one, and the first that fails under compute-sanitizer.

What the machine needs:

* x86-64 Linux with bash, coreutils and glibc ${glibc#GLIBC_} or newer; where its libstdc++ lacks $(cat "$out/cxx.version")
  the one in lib/cxx is taken, which wants glibc ${glibc_cxx#GLIBC_};
* NVIDIA's driver for CUDA ${library:+${library##*.} }or newer, or its package cuda-compat for that, and a GPU of compute capability 8.0 or higher;
* ${library:-libcublasLt} (540 MB, so not here): of a CUDA toolkit, or of Python's package nvidia-cublas. Where it is not
  found: ./run-checks.sh --cublas FOLDER;
* for the checks under compute-sanitizer that tool, which is part of the toolkit; for the comparisons PyTorch and Triton.
  Without them these checks are skipped, with the reason.

Everything else is in bin/ and lib/, which are in contents.tar.xz until the first run. Where this folder cannot be written to,
they are unpacked in \$TMPDIR for the time of a run, and --results says where the report goes.
END

bytes=$(du -sb "$out" | cut -f1)
if ((bytes > size_max)); then
  # Three programs have the kernels: a window as large as all of them keeps what is the same once.
  tar -C "$out" -c bin lib | xz --lzma2=preset=2,dict=64MiB >"$out/contents.tar.xz"
  rm -r "${out:?}"/{bin,lib}
  packed=$(du -sb "$out" | cut -f1)
  ((packed <= size_max)) || die "$packed bytes packed; at most $size_max"
  echo "$out: $((packed >> 10)) KiB, $((bytes >> 10)) once run-checks.sh has unpacked it"
else
  echo "$out: $((bytes >> 10)) KiB"
fi
[[ -f $plugin ]] || echo "bundle: without the CUDA plug-in, which was not built: its checks will fail" >&2
