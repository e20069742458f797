#!/usr/bin/env bash
# Runs every check of this bundle on the GPU of this machine and writes a report.
# Exit: 0 all passed, 1 something failed, had no time, or there is no GPU, 2 usage, 128 + N ended by signal N.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)

usage() {
  cat <<'END'
usage: run-checks.sh [--only TEXT] [--limit SECONDS] [--budget SECONDS] [--cublas DIR] [--results DIR] [--list]

  --only TEXT      only the check of this name or, where there is none, those whose names hold TEXT; several are allowed;
                   the report has them in its name
  --limit SECONDS  for each check, where its own limit is longer; one that says little in less keeps what it needs
  --budget SECONDS for all of it: each check has at most what is left, the report is whole before they are over and names
                   what had no time
  --cublas DIR     where this machine has libcublasLt (found by itself in /usr/local/cuda*, ldconfig, and Python's nvidia
                   packages)
  --results DIR    where the report, an archive with all output, and what a running check has said so far go (default: results/ beside this script)
  --list           names, limits and commands of the checks, nothing else

What the machine needs: README.md beside this script.
END
}

wanted=() limit_max="" budget="" cublas="" results=$here/results list=0
while (($#)); do
  case $1 in
  --only | --limit | --budget | --cublas | --results)
    (($# > 1)) || {
      usage >&2
      exit 2
    }
    case $1 in
    --only) wanted+=("$2") ;;
    --limit) limit_max=$2 ;;
    --budget) budget=$2 ;;
    --cublas) cublas=$2 ;;
    --results) results=$2 ;;
    esac
    shift
    ;;
  --list) list=1 ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
  esac
  shift
done
for seconds in "$limit_max" "$budget"; do
  [[ $seconds =~ ^([1-9][0-9]*)?$ ]] || {
    echo "--limit and --budget want whole numbers of seconds above 0" >&2
    exit 2
  }
done

# One line a check: name, seconds it may take (LEAST-MOST where --limit leaves it LEAST), "must" or "may" be skipped where
# there is a GPU, command. Tabs between them.
names=() limits=() fulls=() needs=() commands=()
only=$(IFS=+; printf '%s' "${wanted[*]}")
declare -A is_name=()
while IFS=$'\t' read -r name _; do is_name[=$name]=1; done <"$here/checks.tsv"
# Whether a check of this name is one of those wanted.
is_wanted() {
  local one
  ((${#wanted[@]})) || return 0
  for one in "${wanted[@]}"; do
    if [[ $1 == "$one" ]] || { [[ $1 == *"$one"* ]] && [[ -z ${is_name[=$one]:-} ]]; }; then return 0; fi
  done
  return 1
}
while IFS=$'\t' read -r name limit need command; do
  if [[ -z $name || $name == \#* ]] || ! is_wanted "$name"; then continue; fi
  least=1
  if [[ $limit == *-* ]]; then least=${limit%-*} limit=${limit#*-}; fi
  fulls+=("$limit")
  if [[ -n $limit_max ]] && ((limit_max < limit)); then limit=$((limit_max > least ? limit_max : least)); fi
  names+=("$name") limits+=("$limit") needs+=("$need") commands+=("$command")
done <"$here/checks.tsv"
for one in ${wanted[@]+"${wanted[@]}"}; do
  if ! grep -v '^#' "$here/checks.tsv" | cut -f1 | grep -qF -- "$one"; then
    echo "no check has '$one' in its name" >&2
    exit 2
  fi
done
((${#names[@]})) || {
  echo "there are no checks" >&2
  exit 2
}
if ((list)); then
  for i in "${!names[@]}"; do printf '%s\n    at most %s s: %s\n' "${names[i]}" "${limits[i]}" "${commands[i]}"; done
  exit 0
fi

# Where the programs are: here, or, where this folder cannot be written to, in one that goes at the end.
home=$here temporary=()
trap '((${#temporary[@]} == 0)) || rm -rf "${temporary[@]}"' EXIT
# unpack FOLDER: python3 where there is no xz.
unpack() {
  if command -v xz >/dev/null; then
    tar -C "$1" -xJf "$here/contents.tar.xz"
  else
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$here/contents.tar.xz" "$1"
  fi
}
if [[ -f $here/contents.tar.xz && ! -d $here/bin ]]; then
  if [[ ! -w $here ]]; then
    home=$(mktemp -d "${TMPDIR:-/tmp}/gpu-bundle.XXXXXX") || exit 1
    temporary+=("$home")
    ln -s "$here"/{golden,bench} "$home"/
  fi
  unpack "$home" || {
    echo "$here/contents.tar.xz cannot be unpacked in $home (by xz, or python3)" >&2
    exit 1
  }
fi

# The device's name, or nothing.
find_gpu() {
  local found=""
  if command -v nvidia-smi >/dev/null; then
    found=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
  fi
  if [[ -z $found ]]; then
    found=$(sed -n 's/^Model:[[:space:]]*//p' /proc/driver/nvidia/gpus/*/information 2>/dev/null | head -1)
  fi
  printf '%s' "$found"
}

# How many GPUs programs see. Slices of one (MIG) are none that work together.
count_gpus() {
  local there seen
  there=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | grep -cE '^ *[0-9]+ *$')
  if [[ -v CUDA_VISIBLE_DEVICES ]]; then
    seen=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -cE '^ *([0-9]|GPU-)')
    ((seen >= there)) || there=$seen
  fi
  printf '%s' "$there"
}

# The folder of a library of NVIDIA's, or nothing.
find_library() {
  local name=$1 folder
  for folder in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib /usr/lib/x86_64-linux-gnu; do
    [[ -e $folder/$name ]] && printf '%s' "$folder" && return
  done
  folder=$(ldconfig -p 2>/dev/null | sed -n "s|.*$name .*=> \(.*\)/$name\$|\1|p" | head -1)
  if [[ -z $folder ]] && command -v python3 >/dev/null; then
    folder=$(python3 - "$name" 2>/dev/null <<'END'
import pathlib, site, sys
for root in site.getsitepackages() + [site.getusersitepackages()]:
    for found in pathlib.Path(root).glob('nvidia/**/' + sys.argv[1]):
        print(found.parent)
        sys.exit()
END
    )
  fi
  printf '%s' "$folder"
}

today=$(date +%F)
gpu=$(find_gpu)
GPUS=$(count_gpus)
export GPUS
library=$(cat "$here/cublas.name" 2>/dev/null || true)
if [[ -z $cublas && -n $library ]]; then cublas=$(find_library "$library"); fi
nccl=$(find_library libnccl.so.2) # what is divided among GPUs wants it
# The machine's C++ library where it is new enough.
cxx=$(cat "$here/cxx.version" 2>/dev/null || true)
own=$(ldconfig -p 2>/dev/null | sed -n 's|.*libstdc++\.so\.6 .*x86-64.*=> \(.*\)|\1|p' | head -1)
if [[ -n $cxx && -n $own ]] && grep -aqwF "$cxx" "$own"; then cxx=""; else cxx=:$home/lib/cxx; fi
export MACHINES_LIBRARIES=${LD_LIBRARY_PATH:-} # for what is not ours
export LD_LIBRARY_PATH="$home/lib$cxx${cublas:+:$cublas}${nccl:+:$nccl}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$home/bin:$PATH"
# A glibc that is too old, say: nothing else would run either.
if [[ -x $home/bin/godwit ]] && ! said=$(timeout 60 "$home/bin/godwit" --version 2>&1); then
  echo "godwit does not run on this machine: $(head -1 <<<"$said")" >&2
  exit 1
fi

# compute-sanitizer and the like come with a toolkit, which is not always in PATH.
for folder in /usr/local/cuda*/bin /usr/local/cuda*/compute-sanitizer; do
  [[ -d $folder ]] && PATH="$PATH:$folder"
done

# Letters, digits and single dashes, for a file's name.
slug() { printf '%s' "$1" | tr -c 'A-Za-z0-9_' '-' | tr -s '-' | sed 's/^-//; s/-$//'; }
stamp=$today-$(slug "${gpu:-no-gpu}")${only:+-$(slug "$only" | cut -c1-80)}
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu-logs.XXXXXX") || exit 1 # what has run: the archive has it, since some machines give few files back
temporary+=("$work")
logs=$work/$stamp
mkdir -p "$logs" || exit 1
report=$results/$stamp.md
archive=$results/$stamp.tar.gz

passed=0 failed=0 skipped=0 untried=0 finished=0 outcome=1 rows=() notes=() told=() rest=()

# What a reader of the report wants to know before its numbers.
warn() {
  notes+=("$1")
  echo "$1"
}

summary() {
  local words="$passed passed, $failed failed, $skipped skipped"
  ((untried == 0)) || words+=", $untried without time"
  printf '%s' "$words"
}

# What a log says where it is too long for the report: how it begins and how it ends.
excerpt() {
  if (($(wc -l <"$1") <= 200)); then
    cat "$1"
  else
    head -n 100 "$1" && echo "[...]" && tail -n 100 "$1"
  fi
}

section() { # TITLE, its text on stdin
  printf '\n## %s\n\n```\n' "$1"
  awk 1 # what was cut off may end within a line
  printf '```\n'
}

# The report and the archive of what there is so far.
save() {
  local log note kernel
  outcome=0
  if [[ -z $gpu ]] || ((failed > 0 || passed == 0 || untried > 0 || finished < ${#names[@]})); then outcome=1; fi
  kernel=$(dmesg 2>/dev/null | grep -iE 'NVRM|Xid' | tail)
  {
    echo "# ${gpu:-No GPU}, $today"
    echo
    if [[ -z $gpu ]]; then
      echo "There is no GPU on this machine. Nothing was checked."
    else
      echo "\`\`\`"
      printf '%s\n' "$machine"
      echo "\`\`\`"
    fi
    echo
    for note in ${notes[@]+"${notes[@]}"}; do printf '%s\n\n' "$note"; done
    if [[ -n $only ]]; then echo "Only checks with '$only' in their names."; fi
    if [[ -n $limit_max ]]; then echo "No check was allowed more than $limit_max s but those that say little in that."; fi
    if [[ -n $budget ]]; then echo "All of them were allowed $budget s."; fi
    if ((finished < ${#names[@]})); then
      echo "UNFINISHED: $finished of ${#names[@]} checks have run${ended:+; then came SIG$ended}."
    fi
    echo "$(summary); exit code $outcome."
    echo
    echo "| check | result | seconds | exit code | |"
    echo "| --- | --- | ---: | ---: | --- |"
    printf '%s\n' "${rows[@]}"
    if ((${#rest[@]})); then
      printf '\nWhat there was too little time for:\n\n    run-checks.sh'
      printf " --only '%s'" "${rest[@]}"
      echo
    fi
    for log in ${told[@]+"${told[@]}"}; do excerpt "$log" | section "$(basename "$log" .log)"; done
    if [[ -n $kernel ]]; then section "the kernel's log" <<<"$kernel"; fi
  } >"$report.part" && mv "$report.part" "$report"
  tar -C "$work" -czf "$archive.part" "$stamp" -C "$results" "$stamp.md" && mv "$archive.part" "$archive"
}

# row NAME RESULT SECONDS EXIT WORDS
row() {
  rows+=("| $1 | $2 | $3 | $4 | $5 |")
  printf '%-44s %-8s %s\n' "$1" "$2" "$5"
}
# The same of a check, which counts.
note() {
  case $2 in
  passed) passed=$((passed + 1)) ;;
  skipped) skipped=$((skipped + 1)) ;;
  FAILED) failed=$((failed + 1)) ;;
  *) untried=$((untried + 1)) ;;
  esac
  row "$@"
}

# What ends this script ends what it runs, which would go on using the GPU.
running="" ended=""
# shellcheck disable=SC2317 # by the traps
interrupted() {
  ended=$1
  [[ -z $running ]] || kill "$running" 2>/dev/null
}
trap 'interrupted TERM' TERM
trap 'interrupted INT' INT
trap 'interrupted HUP' HUP

# bounded SECONDS COMMAND LOG: runs it in the bundle's folder, and sets status. timeout has a process group of its own, and
# ends all of it also where it is ended itself.
bounded() {
  (cd "$home" && exec timeout --kill-after=10 "$1" bash -c "$2") >"$3" 2>&1 &
  running=$!
  [[ -z $ended ]] || kill "$running" 2>/dev/null
  wait "$running"
  status=$?
  while kill -0 "$running" 2>/dev/null; do # a signal to this script ended the wait
    wait "$running"
    status=$?
  done
  running=""
}

# How many seconds a check with this limit gets: less where the budget has less, 0 where that is not worth beginning. What
# a program takes that does not end at once, and the report, are left over.
grant() {
  local left=$((${budget:-1000000} - SECONDS - 12))
  if ((left >= $1)); then echo "$1"; elif ((left >= 5)); then echo $left; else echo 0; fi
}

# Names of tests may have any word in them.
without_names() { grep -vE '^\[( RUN      |       OK |  FAILED  |  SKIPPED |  PASSED  )\]' "$1"; }
# The first line that says why a program failed.
first_reason() { grep -vE '^\[( RUN      |       OK )\]' "$2" | grep -m1 -iE "$1" | cut -c1-160 | tr '|' '/' || true; }
# Why a program skipped everything: a test says it on the line behind its place in the source.
skip_reason() {
  local words
  words=$(sed -n '/: Skipped$/ {n; p; q}' "$1" | cut -c1-160 | tr '|' '/')
  [[ -n $words ]] || words=$(first_reason 'skipp|no GPU|no device' "$1")
  printf '%s' "${words:-it does not say why}"
}

# What this machine lacks for a command, or nothing.
lacks() {
  if [[ -z $gpu ]]; then
    echo "no GPU"
  elif [[ $1 == compute-sanitizer* ]] && ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed"
  elif [[ $1 == python3* ]] && ! command -v python3 >/dev/null; then
    echo "Python is not installed"
  fi
}

fault='illegal|misaligned|unspecified launch|bad_alloc'
died() { (($1 > 128 && $1 < 160)); }
fault_in() { without_names "$1" | grep -m1 -iE "$fault"; }
# Not by the exit code of fault_in: grep is ended by SIGPIPE where another one needs no more.
is_fault() { died "$1" || [[ -n $(fault_in "$2") ]]; }
following_max=180 # seconds of a whole run for what comes after faults, of which the sanitizer has the last
sanitizer_max=60

# After a fault a process has no GPU any more, which hides the other tests of its suite: each in a process of its own,
# then the first that fails so under compute-sanitizer.
follow_fault() {
  local name=$1 command=$2 program=${2%% *} started=$SECONDS log tests test seconds alone=0 bad=() left_out=0 words
  local skipping=0
  seconds=$(grant 20)
  ((following_max > sanitizer_max && seconds > 0)) || return
  log=$logs/$(slug "$name")-one-by-one.log
  mapfile -t tests < <(cd "$home" && timeout "$seconds" bash -c "$command --gtest_list_tests" 2>/dev/null |
    awk '/^[^ ]+\.( |$)/ {suite = $1} /^  [^ ]/ {print suite $1}')
  for test in ${tests[@]+"${tests[@]}"}; do
    seconds=$(grant 20)
    if [[ -n $ended ]] || ((seconds == 0 || SECONDS - started >= following_max - sanitizer_max)); then
      left_out=$((left_out + 1))
      continue
    fi
    bounded "$seconds" "$program --gtest_filter='$test'" "$work/one.log"
    cat "$work/one.log" >>"$log"
    if ((status != 0)); then
      bad+=("$test")
    elif grep -q '^\[  SKIPPED \]' "$work/one.log"; then
      skipping=$((skipping + 1))
    else
      alone=$((alone + 1))
    fi
  done
  words="$alone pass alone"
  ((skipping == 0)) || words+=", $skipping skipped"
  ((${#bad[@]} == 0)) || words+=", not ${bad[*]}"
  ((left_out == 0)) || words+=", no time for $left_out"
  row "$name, one by one" - $((SECONDS - started)) - "$words"
  seconds=$(grant $sanitizer_max)
  if ((${#bad[@]} > 0 && seconds > 0)) && [[ -z $ended ]] && command -v compute-sanitizer >/dev/null; then
    log=$logs/$(slug "$name")-under-memcheck.log
    command="compute-sanitizer --tool memcheck --report-api-errors no bin/$program --gtest_filter='${bad[0]}'"
    bounded "$seconds" "$command" "$log"
    words=$(sed -n 's/^========= *//p' "$log" | grep -v '^COMPUTE-SANITIZER' | head -2 | paste -sd ' ' | cut -c1-300)
    row "memcheck of ${bad[0]}" - - "$status" "$(tr '|' '/' <<<"${words:-see its log}")"
    told+=("$log")
  fi
  following_max=$((following_max - SECONDS + started))
}

# A program that stood still in one suite may do so in its others, which have less time.
declare -A stood_still=()
again_max=${GODWIT_AGAIN_MAX:-20} # for the test of this script

# run_check NAME LIMIT FULL NEED COMMAND: what had less than FULL and was not ready is told as what had too little time.
run_check() {
  local name=$1 limit=$2 full=$3 need=$4 command=$5 program=${5%% *} log status started took words tests missed seconds
  local others
  words=$(lacks "$command")
  if [[ -n $words ]]; then
    note "$name" skipped 0 - "skipped: $words"
    return
  fi
  if [[ -n ${stood_still[$program]:-} ]] && ((limit > again_max)); then limit=$again_max; fi
  seconds=$(grant "$limit")
  if ((seconds == 0)); then
    rest+=("$name")
    note "$name" "no time" 0 - "-"
    return
  fi
  started=$SECONDS
  [[ $command != python3* ]] || command="LD_LIBRARY_PATH=\$MACHINES_LIBRARIES $command"
  # Beside the report while it runs: what the machine cuts off is not in the archive.
  bounded "$seconds" "$command" "$results/$stamp.running.log"
  took=$((SECONDS - started))
  log=$logs/$(slug "$name").log
  mv "$results/$stamp.running.log" "$log"
  tests=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests*\.$/\1/p' "$log" | tail -1)
  # Also of one that missed a goal or ran out of time: what it measured is what was asked for.
  if [[ $name == bench* ]]; then told+=("$log"); fi
  if [[ -n $ended ]]; then
    rest+=("$name")
    note "$name" FAILED $took "$status" "ended by SIG$ended"
  elif ((status == 77)) || { ((status == 0)) && [[ $tests == 0 ]] && grep -q '^\[  SKIPPED \]' "$log"; } ||
    { ((status == 0)) && grep -q '^{"skipped"' "$log"; }; then
    if [[ $need == must ]]; then
      note "$name" FAILED $took "$status" "it found no GPU: $(skip_reason "$log")"
    else
      note "$name" skipped $took "$status" "skipped: $(skip_reason "$log")"
    fi
  elif ((status == 0)) && [[ $tests == 0 ]]; then
    note "$name" FAILED $took 0 "no test of that name"
  elif ((status == 0)); then
    words=${tests:+$tests tests}
    others=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) tests*, .*/\1/p' "$log" | head -1)
    [[ -z $others ]] || words+=", $others skipped: $(skip_reason "$log")"
    note "$name" passed $took 0 "$words"
  elif [[ $command == compute-sanitizer* ]] && grep -qi 'device not supported' "$log"; then
    note "$name" skipped $took "$status" "skipped: $(first_reason 'device not supported' "$log")"
  elif ((status == 124)) || ((status == 137 && took >= seconds)); then
    words=$(sed -n 's/^\[ RUN      \] //p' "$log" | tail -1)
    words="took longer than $seconds s${words:+, in $words}"
    if [[ -n ${stood_still[$program]:-} ]]; then words+="; no more, since it stood still before"; fi
    [[ $program != *_test ]] || stood_still[$program]=yes
    if ((seconds < full)); then rest+=("$name"); fi
    note "$name" FAILED $took "$status" "$words"
  else
    words=$(fault_in "$log" | cut -c1-160 | tr '|' '/')
    [[ -n $words ]] || words=$(first_reason '\[  FAILED  \]|error|cannot|ERROR|not found' "$log")
    missed=$(grep -c '"ok": false' "$log")
    if [[ -z $words ]] && ((missed > 0)); then words="goals missed: $missed"; fi
    if [[ -z $words ]] && died "$status"; then words="died of SIG$(kill -l "$status")"; fi
    note "$name" FAILED $took "$status" "${words:-see its log}"
    if [[ $program == *_test ]] && is_fault "$status" "$log"; then follow_fault "$name" "$command"; fi
  fi
}

# Processes of one machine talk over it, by UCX and without; a container may have it down.
interfaces=${GODWIT_INTERFACES:-/sys/class/net} # for the test of this script
loopback_is_down() {
  local flags
  flags=$(cat "$interfaces/lo/flags" 2>/dev/null) && (((flags & 1) == 0))
}
if loopback_is_down; then
  ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null
  if loopback_is_down; then
    warn "the loopback interface is down, and 'ip link set lo up' did not help: what takes several processes will fail"
  else
    warn "the loopback interface was down, and is up now"
  fi
fi

# A driver that is too old for the runtime within the programs: none of them would find a GPU. NVIDIA's package cuda-compat
# brings a newer one beside it.
wanted_cuda=${library##*.} driver_cuda=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9]*\)\..*/\1/p' | head -1)
if [[ $wanted_cuda =~ ^[0-9]+$ && -n $driver_cuda ]] && ((driver_cuda < wanted_cuda)); then
  folders=${GODWIT_CUDA_FOLDERS:-/usr/local} # for the test of this script
  compat=$(compgen -G "$folders/cuda-$wanted_cuda*/compat/libcuda.so.1" | sort -V | tail -1)
  if [[ -z $compat ]]; then
    echo "this machine's driver is for CUDA $driver_cuda, and the programs want $wanted_cuda: install a newer driver or NVIDIA's package cuda-compat-$wanted_cuda-0, or make the bundle with a toolkit $driver_cuda" >&2
    exit 1
  fi
  LD_LIBRARY_PATH=${compat%/*}:$LD_LIBRARY_PATH
  warn "this machine's driver is for CUDA $driver_cuda, and the programs want $wanted_cuda: they have $compat"
fi

if [[ -z $gpu ]]; then
  echo "There is no GPU here: nvidia-smi names none and /proc/driver/nvidia lists none. Nothing was checked."
elif [[ -n $library && -z $cublas ]]; then
  warn "$library is nowhere to be found: what needs the GPU will fail. Name its folder with --cublas."
fi
machine=$(
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit --format=csv 2>/dev/null ||
    cat /proc/driver/nvidia/version 2>/dev/null
  echo "${library:-no cuBLASLt}: ${cublas:-not found}"
  echo "processor: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1), $(nproc) threads"
  cat "$here/version.txt" 2>/dev/null
)
for i in "${!names[@]}"; do
  # What is cut off with all else is at least not taken for one that was not begun.
  if ((i == 0)) && [[ -n $gpu ]]; then save; fi
  run_check "${names[i]}" "${limits[i]}" "${fulls[i]}" "${needs[i]}" "${commands[i]}"
  finished=$((finished + 1))
  if [[ -n $ended ]]; then
    rest+=("${names[@]:i+1}")
    break
  fi
  save # after each: the machine may end this before the last one
done
save
summary
echo
echo "report: $report, all output: $archive"
[[ -z $ended ]] || exit $((128 + $(kill -l "$ended")))
exit $outcome
