#!/usr/bin/env bash
# GPUs that reach each other only by rings, proxies and mail (docs/decisions/0077): two PEs as two nodes of one machine,
# on as many of its GPUs as there are. From the simplest on; where a step does not end, what each thread was doing, and
# where a kernel fails, compute-sanitizer says where, if it is there.
#
#   tests/gpu/nodes.sh BUILD_DIRECTORY [EVERY]
#
# EVERY: the program of every device function (nvshmem.sh --kernels makes it), whose parts run behind it.
set -uo pipefail

if [ $# -lt 1 ] || [ ! -x "$1/bin/nvshmrun" ]; then
  echo "usage: $0 BUILD_DIRECTORY [EVERY] (with bin/nvshmrun and src/symm/symm_pes)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
every=${2:-}
sanitizer=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer
export PENSTOCK_JOB_NODES=2 NVSHMEM_SYMMETRIC_SIZE=256M
failures=0

# Where each thread of the processes below this one is in the kernel, and in which call.
tell_threads() {
  local pid=$1 child thread
  for thread in /proc/"$pid"/task/*; do
    echo "  $pid $(cat "$thread/comm") $(cat "$thread/wchan" 2>/dev/null): $(cat "$thread/syscall" 2>/dev/null)"
  done
  for child in $(cat /proc/"$pid"/task/*/children 2>/dev/null); do
    tell_threads "$child"
  done
}

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 pid code
  shift 2
  echo "== $name"
  "$@" &
  pid=$!
  for ((i = 0; i < limit * 10; ++i)); do
    [ -d "/proc/$pid" ] || break
    sleep 0.1
  done
  if [ -d "/proc/$pid" ]; then
    tell_threads "$pid"
    kill "$pid"
    sleep 1
    kill -KILL "$pid" 2>/dev/null
  fi
  wait "$pid"
  code=$?
  if [ $code -eq 0 ]; then
    echo "PASS $name"
    return
  fi
  echo "FAIL $name ($code)"
  failures=$((failures + 1))
  return 1
}

pes=$(find "$build" -name symm_pes -type f -perm -u+x -print -quit)
# The machine's network and processes, without its GPUs.
step "each step, simulated" 60 "$pes" 2 device_far_steps simulated
step "each step" 60 "$pes" 2 device_far_steps || {
  [ -x "$sanitizer" ] && step "each step, watched" 180 \
    "$sanitizer" --target-processes all "$pes" 2 device_far_steps
}
# scenario PES NAME CODE: it ends with the code.
scenario() {
  step "$2, $1 PEs" 120 bash -c "\"$pes\" $1 $2; [ \$? -eq $3 ]"
}
for pes_of in 2 4; do
  for name in device_streams device_operations far_operations; do
    scenario $pes_of $name 0
  done
done
scenario 2 device_far_pageable 0
scenario 3 far_elements 0
scenario 4 far_teams 0
scenario 2 device_end 7
scenario 3 device_collective_end 7
scenario 4 far_operations_killed 137
if [ -n "$every" ]; then
  for part in memory words collectives reduces reducescatters; do
    step "every function: $part" 180 "$build/bin/nvshmrun" -n 2 "$every" "$part" || {
      [ -x "$sanitizer" ] && step "every function: $part, watched" 300 \
        "$build/bin/nvshmrun" -n 2 "$sanitizer" "$every" "$part"
    }
  done
fi
echo "$failures failed"
[ "$failures" -eq 0 ]
