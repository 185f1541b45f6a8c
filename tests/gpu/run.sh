#!/usr/bin/env bash
# Compiles the programs here with NVIDIA's cufile.h and runs each with our libcufile.so.0 and with
# NVIDIA's. See README.md.
#
#   tests/gpu/run.sh BUILD_DIRECTORY [FILE_DIRECTORY]
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ ! -e "$1/lib/libcufile.so.0" ]; then
  echo "usage: $0 BUILD_DIRECTORY [FILE_DIRECTORY] (with BUILD_DIRECTORY/lib/libcufile.so.0)" >&2
  exit 2
fi
ours=$(cd "$1/lib" && pwd)
files=${2:-/var/tmp}
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
"$here/disk_record.sh" "$files" || true

find_in() { find -L "$cuda" -name "$1" -print -quit 2>/dev/null; }
header=$(find_in cufile.h)
if [ -n "$header" ]; then
  include=$(dirname "$header")
  theirs=$(dirname "$(find_in 'libcufile.so.0')")
else
  echo "no cufile.h of NVIDIA's below $cuda: compiling with ours"
  include=$source/src/fronts/cufile/include
  theirs=
fi
flags="-std=c++20 -O2 -Wall -I$include -I$cuda/include"
runtime=$(dirname "$(find_in 'libcudart.so')")

if [ -n "$header" ]; then
  g++ -std=c++20 -I"$include" -I"$cuda/include" "$here/abi.cc" -o "$work/abi_theirs" &&
    g++ -std=c++20 -I"$source/src/fronts/cufile/include" -I"$cuda/include" "$here/abi.cc" \
      -o "$work/abi_ours" || exit 1
  if diff <("$work/abi_ours") <("$work/abi_theirs"); then
    echo "PASS the headers agree"
  else
    echo "FAIL the headers differ (< ours, > NVIDIA's)"
    status=1
  fi
fi

# run NAME LIBRARIES COMMAND...
run() {
  local name=$1 libraries=$2
  shift 2
  echo "---- $name"
  LD_LIBRARY_PATH=$libraries:$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 300 "$@" | grep -v '^PASS '
  local result=${PIPESTATUS[0]}
  case $result in
    0) echo "PASS $name" ;;
    77) ;;
    *) echo "FAIL $name ($result)"; return 1 ;;
  esac
}

for program in cufile_sync cufile_batch cufile_stream cufile_errors cufile_throughput; do
  # Any library of that name will do for linking.
  # shellcheck disable=SC2086
  g++ $flags "$here/$program.cc" -o "$work/$program" -L"$ours" -L"$runtime" -L"$cuda/lib64/stubs" \
    -Wl,--allow-shlib-undefined -lcufile -lcudart -lcuda -pthread || exit 1
done
for program in cufile_sync cufile_batch cufile_stream cufile_errors; do
  run "$program with ours" "$ours" "$work/$program" "$files" || status=1
  # What NVIDIA's does differently is told, and no failure of ours.
  [ -z "$theirs" ] || run "$program with NVIDIA's" "$theirs" "$work/$program" "$files"
done
if python3 -c 'import torch.cuda.gds' 2>/dev/null; then
  run "torch.cuda.gds with ours" "$ours" env "LD_PRELOAD=$ours/libcufile.so.0" \
    python3 "$here/torch_gds.py" "$files" || status=1
  [ -z "$theirs" ] || run "torch.cuda.gds with NVIDIA's" "$theirs" python3 "$here/torch_gds.py" "$files"
fi
for _ in 1 2 3; do
  run "throughput with ours" "$ours" "$work/cufile_throughput" "$files" "${FILE_MIB:-4096}" 1 || status=1
  [ -z "$theirs" ] || run "throughput with NVIDIA's" "$theirs" "$work/cufile_throughput" "$files" "${FILE_MIB:-4096}" 1
done
exit $status
