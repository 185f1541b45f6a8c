#!/usr/bin/env bash
# NVSHMEM's functions on a machine with GPUs: each that the host or a stream may call, with every type, on one PE and on
# two (which share a GPU where there is one); what has no type; mistakes; modules, buffers. With `--kernels` also each device function,
# which nvcc compiles in some minutes.
#
#   tests/gpu/nvshmem.sh BUILD_DIRECTORY [--kernels]
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ ! -e "$1/lib/libnvshmem_host.so" ] || [ ! -x "$1/bin/nvshmrun" ]; then
  echo "usage: $0 BUILD_DIRECTORY [--kernels] (with lib/libnvshmem_host.so and bin/nvshmrun)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
kernels=${2:-}
tests=$source/src/fronts/nvshmem/tests
made=$build/src/fronts/nvshmem/made
cuda=${CUDA_HOME:-/usr/local/cuda}
runtime=$(find -L "$cuda" -name libcudart_static.a -print -quit)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export NVSHMEM_SYMMETRIC_SIZE=256M
failures=0
includes=(-I"$tests" -I"$build/include")
libraries=(-L"$build/lib" -lnvshmem_host -Xlinker -rpath -Xlinker "$build/lib")

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2
  shift 2
  if timeout --kill-after=10 "$limit" "$@"; then
    echo "PASS $name"
  else
    echo "FAIL $name"
    failures=$((failures + 1))
  fi
}

# program NAME SOURCE...: of the host alone.
program() {
  local name=$1
  shift
  g++ -std=c++17 -O0 -isystem "$cuda/include" "${includes[@]}" "$@" -o "$scratch/$name" \
    "${libraries[@]}" "$runtime" -ldl -lrt -lpthread || exit 1
}

# Those of families that the library does not have yet are left out.
parts=()
for part in memory words collectives reduces reducescatters; do
  names=$(grep -o '{"nvshmem[a-z0-9_]*"' "$made/every_host_$part.cc" | tr -d '{"' | sort)
  there=$(nm -D --defined-only "$build/lib/libnvshmem_host.so" | awk '{print $3}' | sed 's/@.*//' | sort)
  if [ -z "$(comm -23 <(echo "$names") <(echo "$there"))" ]; then
    parts+=("$made/every_host_$part.cc")
  else
    echo "SKIP every function of $part: the library has not all of them"
  fi
done
program every_host "$tests/every_host_main.cc" "${parts[@]}"
program other "$tests/other_host_functions.cc"
program captures "$tests/captures_main.cc"
program misuse "$tests/misuse_host.cc"
program stream_collectives "$tests/stream_collectives_main.cc" "$made/every_stream_collective.cc"
for pes in 1 2; do
  step "every host function, $pes PEs" 300 "$build/bin/nvshmrun" -n $pes "$scratch/every_host"
  step "other host functions, $pes PEs" 120 "$build/bin/nvshmrun" -n $pes "$scratch/other" times
  step "graphs captured beside other calls, $pes PEs" 60 "$build/bin/nvshmrun" -n $pes "$scratch/captures"
  NVSHMEM_SYMMETRIC_SIZE=512M step "every collective operation, $pes PEs" 300 \
    "$build/bin/nvshmrun" -n $pes "$scratch/stream_collectives"
done
NVSHMEM_SYMMETRIC_SIZE=512M step "collective operations of teams, 4 PEs" 300 \
  "$build/bin/nvshmrun" -n 4 "$scratch/stream_collectives" graphs sizes
step "mistakes" 300 "$tests/misuse_host.sh" "$build/bin/nvshmrun" "$scratch/misuse"

# The program's own modules, buffers, and kernels that give up: some seconds to compile.
nvcc=("$cuda/bin/nvcc" -std=c++17 -arch=native "${includes[@]}")
"${nvcc[@]}" -cubin "$tests/modules_kernels.cu" -o "$scratch/whole.cubin" || exit 1
"${nvcc[@]}" -rdc=true -cubin -DLINKED "$tests/modules_kernels.cu" -o "$scratch/one.cubin" || exit 1
"${nvcc[@]}" -rdc=true -cubin -DMORE "$tests/modules_kernels.cu" -o "$scratch/other.cubin" || exit 1
"$cuda/bin/nvcc" -arch=native -dlink -cubin "$scratch/one.cubin" "$scratch/other.cubin" -o "$scratch/linked.cubin" || exit 1
"${nvcc[@]}" -rdc=true -c "$tests/modules_main.cu" -o "$scratch/modules_one.o" || exit 1
"${nvcc[@]}" -rdc=true -DMORE -c "$tests/modules_main.cu" -o "$scratch/modules_other.o" || exit 1
# By the archive that loads the library.
archive=(-L"$build/lib" -lnvshmem -L"$cuda/lib64/stubs" -lcuda)
"$cuda/bin/nvcc" -arch=native -rdc=true "$scratch"/modules_{one,other}.o -o "$scratch/modules" "${archive[@]}" || exit 1
for name in buffers reports; do
  "${nvcc[@]}" "$tests/${name}_main.cu" -o "$scratch/$name" "${archive[@]}" || exit 1
done
for pes in 1 2; do
  step "modules, $pes PEs" 100 "$build/bin/nvshmrun" -n $pes "$scratch/modules" "$scratch"/{whole,linked}.cubin
  step "buffers, $pes PEs" 100 "$build/bin/nvshmrun" -n $pes "$scratch/buffers"
done
# job_ends NAME CODE HOW: because of a kernel that gives up so.
job_ends() {
  timeout --kill-after=10 20 "$build/bin/nvshmrun" -n 2 "$scratch/reports" "$3"
  if [ $? -eq "$2" ]; then
    echo "PASS $1"
  else
    echo "FAIL $1"
    failures=$((failures + 1))
  fi
}
job_ends "a kernel with a wrong address" 70 address
job_ends "a kernel with a wrong PE" 70 pe
job_ends "a kernel that ends the job" 5 exit

if [ "$kernels" = --kernels ]; then
  "$cuda/bin/nvcc" -std=c++17 -arch=native -t 0 "${includes[@]}" "$tests/every_main.cu" \
    "$made"/every_{memory,words,collectives,reduces,reducescatters}.cu -o "$scratch/every" \
    -L"$build/lib" -lnvshmem_host -Xlinker -rpath="$build/lib" || exit 1
  for pes in 1 2; do
    step "every device function, $pes PEs" 300 "$build/bin/nvshmrun" -n $pes "$scratch/every"
  done
fi
exit $((failures != 0))
