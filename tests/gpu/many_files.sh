#!/usr/bin/env bash
# Compiles many_files.cc and runs it against a node of its own. See README.md.
#
#   tests/gpu/many_files.sh BUILD_DIRECTORY [SCRATCH_DIRECTORY]
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ ! -e "$1/lib/libpenstock.so" ] || [ ! -x "$1/bin/penstock" ]; then
  echo "usage: $0 BUILD_DIRECTORY [SCRATCH_DIRECTORY] (with lib/libpenstock.so and bin/penstock)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
runtime=$(dirname "$(find -L "$cuda" -name libcudart.so -print -quit)")
work=$(mktemp -d "${2:-/var/tmp}/penstock-many-files-XXXXXX")
export LD_LIBRARY_PATH=$build/lib:$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
node=
clean_up() {
  [ -z "$node" ] || { kill -TERM "$node" && wait "$node" 2>/dev/null; }
  rm -rf "$work"
}
trap clean_up EXIT

g++ -std=c++20 -O2 -Wall -I"$source/src/api/include" -I"$cuda/include" "$here/many_files.cc" -o "$work/many_files" \
  -L"$build/lib" -L"$runtime" -Wl,--allow-shlib-undefined -lpenstock -lcudart -pthread || exit 1
"$build/bin/penstock" up "$work/store" --capacity 2G --cache 1G >"$work/log" 2>&1 &
node=$!
for _ in $(seq 300); do
  grep -q 'Running;' "$work/log" && break
  sleep 0.1
done
grep -q 'Running;' "$work/log" || { cat "$work/log"; exit 1; }
timeout 150 "$work/many_files" "$work/store"
