#!/usr/bin/env bash
# Everything that is tried on a machine with GPUs, one after the other: each program's output goes to a file, and a line
# says how it went. See README.md.
#
#   tests/gpu/all.sh BUILD_DIRECTORY [LOG_DIRECTORY [--bench]]
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ ! -e "$1/lib/libpenstock.so" ] || [ ! -x "$1/bin/penstock" ]; then
  echo "usage: $0 BUILD_DIRECTORY [LOG_DIRECTORY [--bench]] (with lib/libpenstock.so and bin/penstock)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
logs=${2:-gpu-logs}
bench=${3:-}
mkdir -p "$logs"
cuda=${CUDA_HOME:-/usr/local/cuda}
runtime=$(dirname "$(find -L "$cuda" -name libcudart.so -print -quit)")
export LD_LIBRARY_PATH=$build/lib:$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# step NAME SECONDS COMMAND...: SECONDS is far more than it takes.
step() {
  local name=$1 limit=$2 began=$SECONDS result
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$logs/$name" 2>&1
  result=$?
  if [ $result -eq 0 ]; then
    echo "PASS $name ($((SECONDS - began)) s)"
  elif [ $result -eq 77 ]; then
    echo "SKIP $name: $(tail -n 1 "$logs/$name")"
  else
    echo "FAIL $name ($result, $((SECONDS - began)) s): $logs/$name"
    grep '^FAIL' "$logs/$name" | head -5
    failures=$((failures + 1))
  fi
}

# program NAME SECONDS [ARGUMENT...]: one that the build made, wherever it put it.
program() {
  local name=$1 limit=$2 path
  shift 2
  path=$(find "$build" -name "$name" -type f -perm -u+x -print -quit)
  step "$name" "$limit" "${path:-$name}" "$@"
}

round_trip() {
  g++ -std=c++20 -O2 -I"$source/src/api/include" "$here/model_round_trip.cc" -o "$scratch/model_round_trip" \
    -L"$build/lib" -Wl,--allow-shlib-undefined -lpenstock &&
    "$scratch/model_round_trip" "$scratch" 256
}
export -f round_trip
export source here build scratch

step check_gpu 120 "$build/bin/penstock" check gpu
program device_memory_conformance 120
program kernel_ring_check 180
step bad_input 300 "$here/bad_input.sh" "$build"
step stopped_node 300 "$here/stopped_node.sh" "$build"
program symm_pes 120 2 device_bytes
program symm_pes 120 2 device_streams
step symm_end 120 bash -c "$(find "$build" -name symm_pes -type f -perm -u+x -print -quit) 2 device_end; [ \$? -eq 7 ]"
stories() {
  local pes failed=0 code said wanted scenario
  pes=$(find "$build" -name symm_pes -type f -perm -u+x -print -quit)
  while read -r scenario wanted; do
    said=$("$pes" 2 "$scenario" 2>&1)
    code=$?
    if [ $code -eq "$wanted" ] && [[ $said != *"not so"* ]]; then
      echo "PASS $scenario"
    else
      echo "FAIL $scenario ($code): $said"
      failed=1
    fi
  done <<'END'
device_groups 0
device_full 0
device_no_such_pe 0
device_wrong_address 0
device_in_barrier 137
device_in_wait 137
device_in_host_barrier 137
END
  return $failed
}
export -f stories
step symm_stories 300 bash -c stories
program symm_litmus 900
step nvshmem 900 "$here/nvshmem.sh" "$build"
step session_reads 180 "$here/session_reads.sh" "$build"
step many_files 180 "$here/many_files.sh" "$build"
step usrbio 180 "$here/usrbio.sh" "$build"
step model_round_trip 180 bash -c round_trip
step cufile 900 "$here/run.sh" "$build"
if [ "$bench" = --bench ]; then
  program kernel_ring_bench 180
  program mailbox_bench 120
  step cufile_cold 900 "$here/cufile_cold.sh" "$build"
  step bench_gpu 600 "$build/bin/penstock" bench gpu
  step bench_load 600 "$build/bin/penstock" bench load
fi
echo "$failures failed"
[ "$failures" -eq 0 ]
