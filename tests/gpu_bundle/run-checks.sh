#!/usr/bin/env bash
# Runs every check of this bundle on the GPU of this machine and writes a report.
# Exit: 0 all passed, 1 something failed or there is no GPU, 2 usage.
set -uo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)

usage() {
  cat <<'END'
usage: run-checks.sh [--only TEXT] [--limit SECONDS] [--cublas DIR] [--results DIR] [--list]

  --only TEXT      only the check of this name or, where there is none, those whose names hold TEXT; several are allowed;
                   the report has them in its name
  --limit SECONDS  for each check, where its own limit is longer
  --cublas DIR     where this machine has libcublasLt (found by itself in /usr/local/cuda*, ldconfig, and Python's nvidia
                   packages)
  --results DIR    where the report, an archive with all output, and what a running check has said so far go (default: results/ beside this script)
  --list           names and commands of the checks, nothing else

What the machine needs: README.md beside this script.
END
}

wanted=() limit_max="" cublas="" results=$here/results list=0
while (($#)); do
  case $1 in
  --only | --limit | --cublas | --results)
    (($# > 1)) || {
      usage >&2
      exit 2
    }
    case $1 in
    --only) wanted+=("$2") ;;
    --limit) limit_max=$2 ;;
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
[[ $limit_max =~ ^([1-9][0-9]*)?$ ]] || {
  echo "--limit wants a whole number of seconds above 0" >&2
  exit 2
}

# One line a check: name, seconds it may take, "must" or "may" be skipped where there is a GPU, command. Tabs between them.
names=() limits=() needs=() commands=()
only=$(IFS=+; printf '%s' "${wanted[*]}")
is_name() { cut -f1 "$here/checks.tsv" | grep -qxF -- "$1"; }
# Whether a check of this name is one of those wanted.
is_wanted() {
  local one
  ((${#wanted[@]})) || return 0
  for one in "${wanted[@]}"; do
    if [[ $1 == "$one" ]] || { [[ $1 == *"$one"* ]] && ! is_name "$one"; }; then return 0; fi
  done
  return 1
}
while IFS=$'\t' read -r name limit need command; do
  if [[ -z $name || $name == \#* ]] || ! is_wanted "$name"; then continue; fi
  if [[ -n $limit_max ]] && ((limit_max < limit)); then limit=$limit_max; fi
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
  for i in "${!names[@]}"; do printf '%s\n    %s\n' "${names[i]}" "${commands[i]}"; done
  exit 0
fi

# Where the programs are: here, or, where this folder cannot be written to, in one that goes at the end.
home=$here temporary=()
trap '((${#temporary[@]} == 0)) || rm -rf "${temporary[@]}"' EXIT
if [[ -f $here/contents.tar.gz && ! -d $here/bin ]]; then
  if [[ ! -w $here ]]; then
    home=$(mktemp -d "${TMPDIR:-/tmp}/gpu-bundle.XXXXXX") || exit 1
    temporary+=("$home")
    ln -s "$here"/{golden,bench} "$home"/
  fi
  tar -C "$home" -xzf "$here/contents.tar.gz" || {
    echo "$here/contents.tar.gz cannot be unpacked in $home" >&2
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
stamp=$today-$(slug "${gpu:-no-gpu}")${only:+-$(slug "$only")}
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu-logs.XXXXXX") || exit 1 # what has run: the archive has it, since some machines give few files back
temporary+=("$work")
logs=$work/$stamp
mkdir -p "$logs" || exit 1
report=$results/$stamp.md
archive=$results/$stamp.tar.gz

passed=0 failed=0 skipped=0 outcome=1 rows=() figures=()

# The report and the archive of what there is so far.
save() {
  local log
  outcome=0
  if [[ -z $gpu ]] || ((failed > 0 || passed == 0 || ${#rows[@]} < ${#names[@]})); then outcome=1; fi
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
    if [[ -n $only ]]; then echo "Only checks with '$only' in their names."; fi
    if [[ -n $limit_max ]]; then echo "No check was allowed more than $limit_max s."; fi
    if ((${#rows[@]} < ${#names[@]})); then echo "UNFINISHED: ${#rows[@]} of ${#names[@]} checks have run."; fi
    echo "$passed passed, $failed failed, $skipped skipped; exit code $outcome."
    echo
    echo "| check | result | seconds | exit code | |"
    echo "| --- | --- | ---: | ---: | --- |"
    printf '%s\n' "${rows[@]}"
    for log in "${figures[@]}"; do
      echo
      echo "## $(basename "$log" .log)"
      echo
      echo "\`\`\`"
      tail -n 200 "$log"
      echo "\`\`\`"
    done
  } >"$report.part" && mv "$report.part" "$report"
  tar -C "$work" -czf "$archive.part" "$stamp" -C "$results" "$stamp.md" && mv "$archive.part" "$archive"
}

# note NAME RESULT SECONDS EXIT WORDS
note() {
  rows+=("| $1 | $2 | $3 | $4 | $5 |")
  printf '%-44s %-8s %s\n' "$1" "$2" "$5"
}

# The first line that says why a program skipped everything, or that it failed.
first_reason() { grep -m1 -iE "$1" "$2" | cut -c1-160 | tr '|' '/' || true; }

run_check() {
  local name=$1 limit=$2 need=$3 command=$4 log status started words tests missed
  # Beside the report while it runs: what the machine cuts off is not in the archive.
  log=$results/$stamp.running.log
  if [[ -z $gpu ]]; then
    skipped=$((skipped + 1))
    note "$name" skipped 0 - "skipped: no GPU"
    return
  fi
  if [[ $command == compute-sanitizer* ]] && ! command -v compute-sanitizer >/dev/null; then
    skipped=$((skipped + 1))
    note "$name" skipped 0 - "skipped: compute-sanitizer is not installed"
    return
  fi
  if [[ $command == python3* ]] && ! LD_LIBRARY_PATH=$MACHINES_LIBRARIES python3 -c 'import torch' 2>/dev/null; then
    skipped=$((skipped + 1))
    note "$name" skipped 0 - "skipped: PyTorch is not installed"
    return
  fi
  started=$SECONDS
  [[ $command != python3* ]] || command="LD_LIBRARY_PATH=\$MACHINES_LIBRARIES $command"
  (cd "$home" && timeout --kill-after=10 "$limit" bash -c "$command") >"$log" 2>&1
  status=$?
  mv "$log" "$logs/$(slug "$name").log"
  log=$logs/$(slug "$name").log
  tests=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests*\.$/\1/p' "$log" | tail -1)
  if ((status == 77)) || { ((status == 0)) && [[ $tests == 0 ]] && grep -q '^\[  SKIPPED \]' "$log"; } ||
    { ((status == 0)) && grep -q '^{"skipped"' "$log"; }; then
    words=$(first_reason 'skipp|no GPU|no device' "$log")
    if [[ $need == must ]]; then
      failed=$((failed + 1))
      note "$name" FAILED $((SECONDS - started)) $status "it found no GPU: ${words:-it does not say why}"
    else
      skipped=$((skipped + 1))
      note "$name" skipped $((SECONDS - started)) $status "skipped: ${words:-it does not say why}"
    fi
  elif ((status == 0)) && [[ $tests == 0 ]]; then
    failed=$((failed + 1))
    note "$name" FAILED $((SECONDS - started)) 0 "no test of that name"
  elif ((status == 0)); then
    passed=$((passed + 1))
    note "$name" passed $((SECONDS - started)) 0 "${tests:+$tests tests}"
  else
    failed=$((failed + 1))
    words=$(first_reason '\[  FAILED  \]|error|cannot|ERROR|not found' "$log")
    missed=$(grep -c '"ok": false' "$log")
    if [[ -z $words ]] && ((missed > 0)); then words="goals missed: $missed"; fi
    ((status == 124 || status == 137)) && words="took longer than $limit s"
    note "$name" FAILED $((SECONDS - started)) $status "${words:-see its log}"
  fi
  # Also of one that missed a goal or ran out of time: what it measured is what was asked for.
  if [[ $name == bench* ]]; then figures+=("$log"); fi
}

# A driver that is too old for the runtime within the programs: they would say one by one that there is no GPU. A machine
# may have NVIDIA's package for that, cuda-compat.
wanted_cuda=${library##*.} driver_cuda=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9]*\)\..*/\1/p' | head -1)
if [[ $wanted_cuda =~ ^[0-9]+$ && -n $driver_cuda ]] && ((driver_cuda < wanted_cuda)); then
  echo "this machine's driver is for CUDA $driver_cuda, and the programs want $wanted_cuda: where they find no GPU, it takes a newer driver, or a bundle made with an older toolkit"
fi

if [[ -z $gpu ]]; then
  echo "There is no GPU here: nvidia-smi names none and /proc/driver/nvidia lists none. Nothing was checked."
elif [[ -n $library && -z $cublas ]]; then
  echo "$library is nowhere to be found: what needs the GPU will fail. Name its folder with --cublas."
fi
machine=$(
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit --format=csv 2>/dev/null ||
    cat /proc/driver/nvidia/version 2>/dev/null
  echo "${library:-no cuBLASLt}: ${cublas:-not found}"
  echo "processor: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1), $(nproc) threads"
  cat "$here/version.txt" 2>/dev/null
)
for i in "${!names[@]}"; do
  [[ -z $gpu ]] || save # what is cut off with all else is at least not taken for one that was not begun
  run_check "${names[i]}" "${limits[i]}" "${needs[i]}" "${commands[i]}"
  save # after each: the machine may end this before the last one
done
echo "$passed passed, $failed failed, $skipped skipped"
echo "report: $report, all output: $archive"
exit $outcome
