#!/usr/bin/env bash
# Compiles bad_input.cc and runs its steps against a node of its own: bad arguments, memory that is freed under way,
# forks, files that change, processes and agents that are killed, a damaged disk, no GPU. See README.md.
#
#   tests/gpu/bad_input.sh BUILD_DIRECTORY [SCRATCH_DIRECTORY [host]]
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ ! -e "$1/lib/libpenstock.so" ] || [ ! -x "$1/bin/penstock" ]; then
  echo "usage: $0 BUILD_DIRECTORY [SCRATCH_DIRECTORY [host]] (with lib/libpenstock.so and bin/penstock)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
memory=${3:-gpu}
cuda=${CUDA_HOME:-/usr/local/cuda}
runtime=$(dirname "$(find -L "$cuda" -name libcudart.so -print -quit)")
work=$(mktemp -d "${2:-/var/tmp}/penstock-bad-input-XXXXXX")
export LD_LIBRARY_PATH=$build/lib:$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
node=
failures=0

report() {
  if [ "$1" -eq 0 ]; then echo "PASS $2"; else echo "FAIL $2"; failures=$((failures + 1)); fi
}

stop_node() {
  if [ -z "$node" ]; then return; fi
  kill "-$1" "$node"
  wait "$node" 2>/dev/null
  node=
}

start_node() {
  "$build/bin/penstock" up "$work/store" --capacity 1G --cache 256M >"$work/log" 2>&1 &
  node=$!
  for _ in $(seq 300); do
    grep -q 'Running;' "$work/log" && return
    sleep 0.1
  done
  cat "$work/log"
  exit 1
}

clean_up() {
  stop_node TERM
  rm -rf "$work"
}
trap clean_up EXIT

step() {
  echo "---- $1"
  timeout 120 "$work/bad_input" "$work/store" "$memory" "$1" 2>&1 | tee "$work/output" |
    grep -vE '^PASS (connect|a ring|open|a region|memory to write from|cudaMalloc|register|prepare|submit)$'
  local result=${PIPESTATUS[0]}
  if [ "$result" -ne 0 ]; then
    echo "FAIL $1 ($result)"
    failures=$((failures + 1))
  fi
}

g++ -std=c++20 -O2 -Wall -I"$source/src/api/include" -I"$cuda/include" "$here/bad_input.cc" -o "$work/bad_input" \
  -L"$build/lib" -L"$runtime" -Wl,--allow-shlib-undefined -lpenstock -lcudart -pthread || exit 1

if [ "$memory" = gpu ]; then
  echo "---- no GPU"
  CUDA_VISIBLE_DEVICES='' "$build/bin/penstock" check gpu
  report $((! $?)) "penstock check gpu without a GPU fails"
fi

start_node
step write
step arguments
step freed
step fork
step changes
step verify

echo "---- killed with transfers under way"
for _ in 1 2 3 4 5; do
  "$work/bad_input" "$work/store" "$memory" hammer >"$work/hammer" 2>&1 &
  hammer=$!
  for _ in $(seq 100); do
    grep -q hammering "$work/hammer" && break
    sleep 0.1
  done
  grep -q hammering "$work/hammer"
  report $? "hammering"
  grep '^FAIL' "$work/hammer"
  kill -KILL "$hammer"
  wait "$hammer" 2>/dev/null
  kill -0 "$node"
  report $? "the node lives"
done
step verify

echo "---- the agent is killed meanwhile"
"$work/bad_input" "$work/store" "$memory" hammer >"$work/hammer" 2>&1 &
hammer=$!
sleep 2
stop_node KILL
before=$(grep -c hammering "$work/hammer")
start_node
sleep 3
after=$(grep -c hammering "$work/hammer")
kill -0 "$hammer" && [ "$after" -gt "$before" ]
report $? "reads go on with its successor ($before, then $after thousand)"
kill -KILL "$hammer"
wait "$hammer" 2>/dev/null
step verify

echo "---- a damaged disk"
stop_node TERM
python3 - "$work/store" <<'PY'
import glob, os, sys

# Word 8192 * 512 of the file begins the block at 32 MiB.
i, mask = 8192 * 512, 2**64 - 1
x = i * 0x9E3779B97F4A7C15 & mask
x ^= x >> 29
word = (x * 0xBF58476D1CE4E5B9 & mask).to_bytes(8, "little")
damaged = 0
for path in glob.glob(sys.argv[1] + "/**", recursive=True):
    if not os.path.isfile(path):
        continue
    with open(path, "r+b") as file:
        for at in range(0, os.path.getsize(path), 4096):
            file.seek(at)
            if file.read(8) == word:
                file.seek(at + 100)
                file.write(b"damage")
                damaged += 1
print(f"     {damaged} copies of the block damaged")
PY
start_node
step damaged
cat "$work/log" "$work/output" | grep -iE 'checksum|damage|verif' | head -5

echo "$failures failed"
[ "$failures" -eq 0 ]
