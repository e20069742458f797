#!/usr/bin/env bash
# What bundle.sh makes and run-checks.sh says of it, with programs that play a part: bundle_test.sh [GODWIT].
# GODWIT: the real program, whose libraries the bundle must hold.
set -euo pipefail
scripts=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "bundle_test: $*" >&2
  exit 1
}
expect() { grep -qE -- "$1" "$2" || fail "no '$1' in $(basename "$2"): $(cat "$2")"; }
play() { # NAME LINE EXIT
  printf "#!/bin/sh\necho '%s'\nexit %s\n" "$2" "$3" >"$folder/build/bin/$1"
  chmod +x "$folder/build/bin/$1"
}

mkdir -p "$folder/build/bin" "$folder/smi"
play gpu_good_test '[  PASSED  ] 3 tests.' 0
play gpu_absent_test '[ RUN      ] Gpu.Works
/source/device_test.hpp:70: Skipped
no such device
[  SKIPPED ] Gpu.Works (0 ms)
[  PASSED  ] 0 tests.' 0
play gpu_empty_test '[  PASSED  ] 0 tests.' 0
play gpu_bad_test '[  FAILED  ] Gpu.IsRight' 1
# shellcheck disable=SC2016 # for the script that is written
printf '#!/bin/sh\ncase $1 in *list*) echo "One."; echo "  IsRight";  echo "All/Two.  # TypeParam = int"; echo "  IsWrong/0  # GetParam() = 1"; echo "OnSome/Divided."; echo "  IsRight/2"; echo "MixturesOnTwo."; echo "  IsRight"; echo "Staged."; echo "  IsRight";; *Divided* | *OnTwo* | *Staged*) echo "[  SKIPPED ] one GPU"; echo "[  PASSED  ] 0 tests.";; *One*) echo "[  PASSED  ] 1 test.";; *) echo "[  FAILED  ] $1"; exit 1;; esac\n' >"$folder/build/bin/gpu_suites_test"
chmod +x "$folder/build/bin/gpu_suites_test"
play bench_gpu '{"name": "gpu/one", "value": 7, "ok": true}
{"name": "gpu/two", "value": 8, "ok": false}' 1
printf 'x' >"$folder/build/bin/libgodwit_cuda.so"
bundle=$folder/bundle
programs=(gpu_good_test gpu_absent_test gpu_empty_test gpu_bad_test bench_gpu gpu_suites_test)
"$scripts/bundle.sh" "$folder/build" "$bundle" "${programs[@]}" >"$folder/made"
for file in README.md run-checks.sh checks.tsv version.txt bin/gpu_good_test bin/libgodwit_cuda.so golden/mistral/config.json; do
  [[ -e $bundle/$file ]] || fail "the bundle has no $file"
done
expect 'glibc' "$bundle/README.md"
expect 'compute-sanitizer --tool racecheck --error-exitcode 1 bin/gpu_good_test' "$bundle/checks.tsv"
[[ $(sed -n 's/^\([a-z]*\) of gpu_good\t.*/\1/p' "$bundle/checks.tsv" | xargs) == "memcheck synccheck racecheck" ]] ||
  fail "not memcheck, synccheck, racecheck: $(cat "$bundle/checks.tsv")"

# One that is too large is packed.
GODWIT_BUNDLE_MAX=$(($(du -sb "$bundle" | cut -f1) - 1)) "$scripts/bundle.sh" "$folder/build" "$folder/packed" "${programs[@]}" >"$folder/said" 2>&1
expect 'once run-checks.sh has unpacked it' "$folder/said"
[[ -f $folder/packed/contents.tar.xz && ! -e $folder/packed/bin ]] || fail "nothing was packed"

# A bundle that is too large even so is none.
if GODWIT_BUNDLE_MAX=100 "$scripts/bundle.sh" "$folder/build" "$folder/large" "${programs[@]}" >"$folder/said" 2>&1; then
  fail "a bundle above its bound was made"
fi
expect 'at most 100' "$folder/said"

# checks EXPECTED_EXIT ARGUMENTS...
checks() {
  local wanted=$1 got=0
  shift
  "$bundle/run-checks.sh" --results "$folder/results" "$@" >"$folder/said" 2>&1 || got=$?
  ((got == wanted)) || fail "exit code $got instead of $wanted: $(cat "$folder/said")"
}
report() { echo "$folder"/results/*.md; }
whole_report() { echo "$folder"/results/*-Paper-GPU-9000.md; } # of a run of all checks

if ! compgen -G '/proc/driver/nvidia/gpus/*' >/dev/null && ! command -v nvidia-smi >/dev/null; then
  checks 1
  expect 'There is no GPU here' "$folder/said"
  expect '0 passed, 0 failed, [0-9]+ skipped' "$folder/said"
  expect 'no-gpu.md' <(report)
  lines=$(grep -c '^| .*| skipped | 0 | - | skipped: no GPU |$' "$(report)")
  ((lines == 24)) || fail "$lines checks are 'skipped: no GPU'"
  rm -r "$folder/results"
fi

# shellcheck disable=SC2016 # for the script that is written
printf '#!/bin/sh\ncase "$*" in *query-gpu=index*) seq 0 3;; *csv,noheader*) echo "Paper GPU 9000";; *) echo "name, Paper GPU 9000";; esac\n' >"$folder/smi/nvidia-smi"
chmod +x "$folder/smi/nvidia-smi"
PATH=$folder/smi:$PATH
# A sanitizer that is there: the checks under it run.
# shellcheck disable=SC2016
printf '#!/bin/sh\nwhile [ "${1#bin/}" = "$1" ]; do shift; done\nexec "$@"\n' >"$folder/smi/compute-sanitizer"
chmod +x "$folder/smi/compute-sanitizer"
checks 1 --only gpu_
expect '^gpu_good_test +passed +3 tests' "$folder/said"
expect '^racecheck of gpu_good +passed +3 tests' "$folder/said"
# What is there for the GPU alone must not skip everything where there is one.
expect '^gpu_absent_test +FAILED +it found no GPU: no such device$' "$folder/said"
expect '^gpu_bad_test +FAILED +\[  FAILED  \] Gpu.IsRight' "$folder/said"
expect '^gpu_empty_test +FAILED +no test of that name' "$folder/said"
expect '5 passed, 16 failed, 1 skipped' "$folder/said"
expect 'Paper-GPU-9000-gpu_.md' <(report)
expect '^\| gpu_bad_test \| FAILED \| [0-9]+ \| 1 \|' "$(report)"
expect '^# Paper GPU 9000, 20[0-9]{2}-' "$(report)"
# A test's suites have a process each.
checks 1 --only gpu_suites_test
expect '^gpu_suites_test: One +passed +1 tests' "$folder/said"
expect '^gpu_suites_test: All/Two +FAILED +\[  FAILED  \] --gtest_filter=All/Two\.\*' "$folder/said"
expect '^gpu_suites_test: OnSome/Divided +skipped +skipped: ' "$folder/said" # several GPUs are not what it is about
expect '^gpu_suites_test: MixturesOnTwo +skipped +skipped: ' "$folder/said"
expect '^gpu_suites_test: Staged +skipped +skipped: ' "$folder/said"
expect '1 passed, 1 failed, 3 skipped' "$folder/said"
checks 0 --only good
expect '4 passed, 0 failed, 0 skipped' "$folder/said"
"$folder/packed/run-checks.sh" --results "$folder/unpacked" --only good >"$folder/said" 2>&1 || fail "unpacked, it fails: $(cat "$folder/said")"
expect '4 passed, 0 failed, 0 skipped' "$folder/said"
sed -i 's/^\(.*gpu_absent.*\t[0-9]*\t\)must/\1may/' "$bundle/checks.tsv"
checks 1 --only absent # nothing passed
expect '^gpu_absent_test +skipped +skipped: no such device$' "$folder/said"
# A check's whole name means that one, and there may be several.
checks 0 --only gpu_good_test --only 'racecheck of gpu_good'
expect '2 passed, 0 failed, 0 skipped' "$folder/said"
[[ $(find "$folder/results" -type f | grep -cv '\.md$\|\.tar\.gz$') == 0 ]] || fail "beside reports and archives there is more"
checks 2 --only nonsense
checks 2 --only gpu_good_test --only nonsense
checks 2 --nonsense
checks 0 --list
expect '^memcheck of gpu_bad$' "$folder/said"
checks 2 --limit 0
checks 2 --budget none
# What says little in less keeps its time, and nothing gets more than its own.
checks 0 --list --limit 60
expect '^    at most 60 s: gpu_good_test$' "$folder/said"
expect '^    at most 180 s: bench_gpu ' "$folder/said"
expect '^    at most 150 s: compute-sanitizer --tool memcheck .*gpu_good_test$' "$folder/said"
checks 0 --list --limit 1000
expect '^    at most 120 s: gpu_good_test$' "$folder/said"
expect '^    at most 300 s: bench_gpu ' "$folder/said"

# GPUs are counted as programs see them.
cp "$bundle/checks.tsv" "$folder/checks.tsv"
# shellcheck disable=SC2016 # for the shell that runs the check
printf 'count\t9\tmust\techo "[  PASSED  ] $GPUS tests."\n' >>"$bundle/checks.tsv"
checks 0 --only count
expect '^count +passed +4 tests' "$folder/said"
CUDA_VISIBLE_DEVICES=2,GPU-8932f937 checks 0 --only count
expect '^count +passed +2 tests' "$folder/said"
CUDA_VISIBLE_DEVICES=MIG-1,MIG-2 checks 1 --only count
expect '^count +FAILED +no test of that name' "$folder/said" # none
cp "$folder/checks.tsv" "$bundle/checks.tsv"

# Programs that a machine's glibc is too old for are told of once.
play godwit "godwit: /lib/libc.so.6: version GLIBC_2.99 not found" 1
cp "$folder/build/bin/godwit" "$bundle/bin/godwit"
checks 1 --only good
expect '^godwit does not run on this machine: .*GLIBC_2.99 not found' "$folder/said"
rm "$bundle/bin/godwit"
printf '#!/bin/sh\necho "version GLIBC_2.99 not found"; exit 1\n' >"$bundle/bin/gpu_bad_test"
checks 1 --only gpu_bad_test
expect '^gpu_bad_test +FAILED +version GLIBC_2.99 not found' "$folder/said"

# A driver that is too old for the programs' runtime ends it at once, with one line, unless NVIDIA's cuda-compat is there.
printf 'libcublasLt.so.13' >"$bundle/cublas.name"
sed -i '2s/^/case "$*" in "") echo "| NVIDIA-SMI 550.1  Driver Version: 550.1  CUDA Version: 12.4 |";; esac\n/' "$folder/smi/nvidia-smi"
mkdir -p "$folder/local/cuda-12.9/compat" # too old as well
touch "$folder/local/cuda-12.9/compat/libcuda.so.1"
export GODWIT_CUDA_FOLDERS=$folder/local
checks 1 --only good
expect "^this machine's driver is for CUDA 12, and the programs want 13: install" "$folder/said"
[[ $(wc -l <"$folder/said") == 1 ]] || fail "more is said than that: $(cat "$folder/said")"
mkdir -p "$folder/local/cuda-13.0/compat"
touch "$folder/local/cuda-13.0/compat/libcuda.so.1"
# shellcheck disable=SC2016 # for the shell that runs the check
printf 'compat\t9\tmust\techo $LD_LIBRARY_PATH | grep "^%s/local/cuda-13.0/compat:"\n' "$folder" >"$bundle/checks.tsv"
checks 0 --only compat
expect '^compat +passed' "$folder/said"
cp "$folder/checks.tsv" "$bundle/checks.tsv"
unset GODWIT_CUDA_FOLDERS
sed -i 's/12\.4/13.0/' "$folder/smi/nvidia-smi"
checks 0 --only good
if grep -q "^this machine's driver" "$folder/said"; then fail "a driver that is new enough is told of"; fi
printf '' >"$bundle/cublas.name"

# A bundle that nobody can write to.
if ((EUID != 0)); then
  rm -rf "$folder"/packed/{bin,lib,results}
  chmod -R a-w "$folder/packed"
  "$folder/packed/run-checks.sh" --results "$folder/elsewhere" --only good >"$folder/said" 2>&1 || fail "read-only, it fails: $(cat "$folder/said")"
  chmod -R u+w "$folder/packed"
  expect '4 passed, 0 failed, 0 skipped' "$folder/said"
fi

# A benchmark that misses a goal has failed, and its figures are told.
checks 1 --only bench_gpu
expect '^bench_gpu +FAILED +goals missed: 1' "$folder/said"
expect '^\{"name": "gpu/one", "value": 7' "$folder"/results/*-Paper-GPU-9000-bench_gpu.md

# What was found is on disk when a later check is cut off, and all output in one archive.
printf '#!/bin/sh\ncp %s/results/*-slow.md %s/before_slow; echo begun; sleep 100\n' "$folder" "$folder" >"$bundle/bin/slow"
chmod +x "$bundle/bin/slow"
printf 'a slow one: first\t9\tmust\ttrue\na slow one: second\t100\tmust\tslow\n' >"$bundle/checks.tsv"
checks 1 --only slow --limit 1
expect '^a slow one: second +FAILED +took longer than 1 s' "$folder/said"
expect 'UNFINISHED: 1 of 2' "$folder/before_slow"
expect '1 passed, 1 failed, 0 skipped' "$folder"/results/*-Paper-GPU-9000-slow.md
tar -xzOf "$folder"/results/*-Paper-GPU-9000-slow.tar.gz --wildcards '*second.log' >"$folder/said"
expect '^begun' "$folder/said"

# program NAME: one in the bundle, its lines from stdin.
program() {
  { echo '#!/bin/sh' && cat; } >"$bundle/bin/$1"
  chmod +x "$bundle/bin/$1"
}

# With a budget it ends by itself, says what had no time, and how to go on with that.
printf 'a slow one: second\t100\tmust\tslow\na third\t9\tmust\ttrue\na slow fourth\t9\tmust\ttrue\n' >"$bundle/checks.tsv"
begin=$SECONDS
checks 1 --budget 24
((SECONDS - begin <= 24)) || fail "it took $((SECONDS - begin)) s of 24"
expect '^a slow one: second +FAILED +took longer than ([5-9]|1[0-2]) s' "$folder/said"
expect '^a slow fourth +no time ' "$folder/said"
expect "0 passed, 1 failed, 0 skipped, 2 without time" "$(whole_report)"
expect "^    run-checks.sh --only 'a slow one: second' --only 'a third' --only 'a slow fourth'$" "$(whole_report)"
if grep -q UNFINISHED "$(whole_report)"; then fail "what had no time is said to be unfinished"; fi

# A program that stood still once has little time for its other suites, another one has its own.
program gpu_still_test <<'END'
echo '[ RUN      ] Gpu.Stops'
sleep 100
END
printf 'still: one\t1\tmust\tgpu_still_test\nstill: two\t100\tmust\tgpu_still_test 2\nother\t100\tmust\tsleep 3\n' >"$bundle/checks.tsv"
GODWIT_AGAIN_MAX=2 checks 1
expect '^still: one +FAILED +took longer than 1 s, in Gpu.Stops$' "$folder/said"
expect '^still: two +FAILED +took longer than 2 s, in Gpu.Stops; no more, since it stood still before$' "$folder/said"
expect "^    run-checks.sh --only 'still: two'$" "$(whole_report)"
expect '^other +passed' "$folder/said"

# After a fault the suite's tests run one by one, the first that fails so under the sanitizer, and the driver has its say.
program gpu_fault_test <<'END'
case $* in
*list*) printf 'Gpu.\n  IllegalIsRefused\n  Faults\n  IsRight/0  # GetParam() = 1\n' ;;
*Gpu.\**)
  printf '[ RUN      ] Gpu.IllegalIsRefused\n[       OK ] Gpu.IllegalIsRefused (1 ms)\n[ RUN      ] Gpu.Faults\n'
  printf 'kernel rows: an illegal memory access was encountered\n[  FAILED  ] Gpu.Faults\n'
  seq -f 'and so on: an illegal memory access was encountered, line %g' 5000 # as every test after it says
  exit 1
  ;;
*Faults*) exit 1 ;;
esac
END
program gpu_dies_test <<'END'
case $* in
*list*) printf 'Gpu.\n  Dies\n' ;;
*) kill -SEGV $$ ;;
esac
END
cat >"$folder/smi/compute-sanitizer" <<'END'
#!/bin/sh
echo '========= COMPUTE-SANITIZER'
case $* in
*Gpu.Faults*) printf '========= Invalid __global__ read of size 4 bytes\n=========     at rows+0x10 in kernels_rows.cpp:12\n' ;;
*) echo '========= Error: Device not supported. Please refer to the documentation' ;;
esac
exit 1
END
printf '#!/bin/sh\necho "usb 1-1: new"; echo "NVRM: Xid (PCI:0000:00:1e): 31"\n' >"$folder/smi/dmesg"
chmod +x "$folder/smi/dmesg"
printf "fault\t9\tmust\tgpu_fault_test --gtest_filter='Gpu.*'\ndies\t9\tmust\tgpu_dies_test\nbad\t9\tmust\tgpu_bad_test\n" >"$bundle/checks.tsv"
checks 1
expect '^fault +FAILED +kernel rows: an illegal memory access' "$folder/said"
expect '^fault, one by one +- +2 pass alone, not Gpu.Faults$' "$folder/said"
expect '^memcheck of Gpu.Faults +- +Invalid __global__ read of size 4 bytes at rows.0x10 in kernels_rows.cpp:12$' "$folder/said"
expect '^dies +FAILED +died of SIGSEGV' "$folder/said"
expect '^dies, one by one +- +0 pass alone, not Gpu.Dies$' "$folder/said"
expect '^0 passed, 3 failed, 0 skipped$' "$folder/said" # only checks count
if grep -q '^bad, one by one' "$folder/said"; then fail "a failure that is no fault is looked into"; fi
expect '^=========     at rows' "$(whole_report)"
expect '^NVRM: Xid' "$(whole_report)"
if grep -q 'usb' "$(whole_report)"; then fail "what has nothing to do with the GPU is told"; fi

# A sanitizer that does not know the device is no failure of what it looks at.
printf 'memcheck of it\t9\tmust\tcompute-sanitizer bin/gpu_good_test\nit\t9\tmust\tgpu_good_test\n' >"$bundle/checks.tsv"
checks 0
expect '^memcheck of it +skipped +skipped: .*Device not supported' "$folder/said"

# A loopback interface that is down is told of, and raised where that is allowed.
mkdir -p "$folder/interfaces/lo"
for tool in ip ifconfig; do printf '#!/bin/sh\nexit 1\n' >"$folder/smi/$tool" && chmod +x "$folder/smi/$tool"; done
echo 0x8 >"$folder/interfaces/lo/flags"
GODWIT_INTERFACES=$folder/interfaces checks 0
expect '^the loopback interface is down, and' "$(whole_report)"
printf '#!/bin/sh\n[ "$*" = "link set lo up" ] && echo 0x9 >"%s/interfaces/lo/flags"\n' "$folder" >"$folder/smi/ip"
GODWIT_INTERFACES=$folder/interfaces checks 0
expect '^the loopback interface was down, and is up now' "$(whole_report)"
GODWIT_INTERFACES=$folder/interfaces checks 0
if grep -q loopback "$(whole_report)"; then fail "an interface that is up is told of"; fi

# What ends it ends the check that runs, all of it, and the report says so.
within_10_s() {
  local i
  for ((i = 0; i < 100; i++)); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  return 1
}
are_gone() { ! ps -o stat= -p "$*" | grep -qv '^Z'; } # or nobody has asked yet how they ended
program gpu_long_test <<END
sleep 100 & # a child
echo \$\$ \$! >$folder/pids
wait
END
printf 'long\t100\tmust\tgpu_long_test; true\nnever\t9\tmust\ttrue\n' >"$bundle/checks.tsv"
for signal in TERM INT; do
  rm -f "$folder/pids"
  # Not as a command in the background, for which bash has SIGINT ignored.
  python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
    "$bundle/run-checks.sh" --results "$folder/results" >"$folder/said" 2>&1 &
  runner=$!
  within_10_s test -s "$folder/pids" || fail "nothing was begun: $(cat "$folder/said")"
  kill -"$signal" $runner
  got=0
  wait $runner || got=$?
  ((got == 128 + $(kill -l $signal))) || fail "exit code $got after SIG$signal: $(cat "$folder/said")"
  read -ra pids <"$folder/pids"
  within_10_s are_gone "${pids[@]}" || fail "processes go on after SIG$signal: $(ps -fp "${pids[*]}")"
  expect "^long +FAILED +ended by SIG$signal" "$folder/said"
  expect "^UNFINISHED: 1 of 2 checks have run; then came SIG$signal" "$(whole_report)"
  expect "^    run-checks.sh --only 'long' --only 'never'$" "$(whole_report)"
done

# The real program finds everything in the bundle but what every machine has.
if [[ -n ${1:-} && ! -x $1 ]]; then
  echo "bundle_test: $1 is not built; nothing is said of its libraries"
elif [[ -n ${1:-} ]]; then
  mkdir -p "$folder/real/bin"
  cp "$1" "$folder/real/bin/godwit"
  GODWIT_BUNDLE_MAX=$((1 << 30)) "$scripts/bundle.sh" "$folder/real" "$folder/whole" godwit 2>/dev/null
  libraries=$folder/whole/lib:$folder/whole/lib/cxx
  LD_LIBRARY_PATH=$libraries ldd "$folder/whole/bin/godwit" >"$folder/said"
  if grep -q 'not found' "$folder/said"; then fail "$(cat "$folder/said")"; fi
  outside=$(sed -n 's/^[[:space:]]*\([^ ]*\)\.so.* => \(\/[^ ]*\) .*/\1 \2/p' "$folder/said" | grep -v " $folder/whole/" |
    grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv) ' || true)
  [[ -z $outside ]] || fail "libraries that a bare machine lacks: $outside"
  LD_LIBRARY_PATH=$libraries "$folder/whole/bin/godwit" --version | grep -q godwit || fail "it does not run"
fi
echo "bundle_test: right"
