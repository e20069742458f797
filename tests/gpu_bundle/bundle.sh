#!/usr/bin/env bash
# bundle.sh BUILD OUT [PROGRAM...]: puts into OUT what a bare GPU machine needs to check godwit: the named programs of
# BUILD/bin (default: all there that belong), the CUDA plug-in, the libraries that such a machine lacks, the default
# model, and run-checks.sh. At most 60 MiB: where it is more, most of it is packed, and run-checks.sh unpacks it.
set -euo pipefail
scripts=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
source=$(cd "$scripts/../.." && pwd)

die() {
  echo "bundle: $*" >&2
  exit 1
}
(($# >= 2)) || die "usage: bundle.sh BUILD OUT [PROGRAM...]"
build=$1 out=$2
shift 2
programs=("$@")
size_max=$((60 << 20))
# GODWIT_BUNDLE_MAX: for the test of this script.
size_max=${GODWIT_BUNDLE_MAX:-$size_max}

if ((${#programs[@]} == 0)); then
  for file in "$build"/bin/{godwit,transport_test,actors_test} "$build"/bin/gpu_*_test "$build"/bin/bench_{gpu,gpu_kernels,migration}; do
    if [[ -x $file && -f $file ]]; then programs+=("$(basename "$file")"); fi
  done
fi
((${#programs[@]})) || die "no programs in $build/bin; build them first"

rm -rf "$out"
mkdir -p "$out"/{bin,lib/cxx,models/default}

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

for file in config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json; do
  if [[ -f $source/gpu/model/default/$file ]]; then cp "$source/gpu/model/default/$file" "$out/models/default/"; fi
done
mkdir -p "$out/bench"
if [[ -f $source/tests/bench/gpu/reference.py ]]; then cp "$source/tests/bench/gpu/reference.py" "$out/bench/"; fi
cp "$scripts/run-checks.sh" "$out/run-checks.sh"
chmod +x "$out/run-checks.sh"
{
  printf 'godwit %s' "$(sed -n 's/^project(godwit VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt" | head -1)"
  git -C "$source" log -1 --format=', commit %h of %cs' 2>/dev/null || echo
} >"$out/version.txt"

# By what is there: name, seconds, whether it may skip everything on a GPU, command.
has() { [[ -x $out/bin/$1 ]]; }
check() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4"; }
{
  echo "# check, seconds it may take, must or may, command (run in this folder, with bin/ in PATH and lib/ found)"
  if has transport_test; then
    check "fabric: device memory, emulated" 300 must "transport_test --gtest_filter='*evice*'"
  fi
  if has actors_test; then
    check "actors: migrations between devices, emulated" 300 must "actors_test --gtest_filter='*DeviceMigration*'"
  fi
  for file in "$out"/bin/gpu_*_test; do
    [[ -x $file ]] || continue
    name=$(basename "$file")
    need=may tools=(memcheck racecheck)
    case $name in
    gpu_kernels_test) need=must ;;
    gpu_plugin_test) need=must tools=(memcheck) ;;
    gpu_migration_test) need=must tools=() ;;
    gpu_cuda_test | *emulated*) tools=() ;; # nothing to do with the device
    esac
    check "$name" 600 "$need" "$name"
    for tool in "${tools[@]}"; do
      check "$name under $tool" 1800 "$need" "compute-sanitizer --tool $tool --error-exitcode 1 bin/$name"
    done
  done
  if has godwit; then
    # Without --deterministic a question may be answered otherwise beside others, and the demo compares answers.
    check "demo on the GPU" 600 must "godwit demo --device cuda --deterministic --json"
  fi
  if has bench_gpu; then check "bench gpu" 1800 must "bench_gpu --json"; fi
  if has bench_gpu_kernels; then check "bench gpu_kernels" 900 must "bench_gpu_kernels"; fi
  if has bench_migration; then check "bench migration" 1800 must "bench_migration --cuda --json"; fi
  if [[ -f $out/bench/reference.py ]]; then
    check "bench reference (PyTorch, Triton)" 900 may "python3 bench/reference.py"
  fi
} >"$out/checks.tsv"

cat >"$out/README.md" <<END
# Checks of godwit on a GPU

    ./run-checks.sh            # all of them; writes results/YYYY-MM-DD-DEVICE.md
    ./run-checks.sh --list     # what they are

Put the report into docs/gpu-results/ of the repository.

What the machine needs:

* x86-64 Linux with bash, coreutils and glibc ${glibc#GLIBC_} or newer; where its libstdc++ lacks $(cat "$out/cxx.version")
  the one in lib/cxx is taken, which wants glibc ${glibc_cxx#GLIBC_};
* NVIDIA's driver for CUDA ${library:+${library##*.} }or newer, and a GPU of compute capability 8.0 or higher;
* ${library:-libcublasLt} (540 MB, so not here): of a CUDA toolkit, or of Python's package nvidia-cublas. Where it is not
  found: ./run-checks.sh --cublas FOLDER;
* for the checks under compute-sanitizer that tool, which is part of the toolkit; for the comparisons PyTorch and Triton.
  Without them these checks are skipped, with the reason.

Everything else is in bin/ and lib/, which are in contents.tar.gz until the first run.
END

bytes=$(du -sb "$out" | cut -f1)
if ((bytes > size_max)); then
  tar -C "$out" -czf "$out/contents.tar.gz" bin lib models
  rm -r "${out:?}"/{bin,lib,models}
  packed=$(du -sb "$out" | cut -f1)
  ((packed <= size_max)) || die "$packed bytes packed; at most $size_max"
  echo "$out: $((packed >> 10)) KiB, $((bytes >> 10)) once run-checks.sh has unpacked it"
else
  echo "$out: $((bytes >> 10)) KiB"
fi
[[ -f $plugin ]] || echo "bundle: without the CUDA plug-in, which was not built: its checks will fail" >&2
