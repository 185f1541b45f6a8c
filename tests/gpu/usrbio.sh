#!/usr/bin/env bash
# Compiles usrbio_device.c and runs it in the mount of a node of its own. See README.md.
#
#   tests/gpu/usrbio.sh BUILD_DIRECTORY [SCRATCH_DIRECTORY]
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ ! -e "$1/lib/libhf3fs_api_shared.so" ] || [ ! -x "$1/bin/penstock" ]; then
  echo "usage: $0 BUILD_DIRECTORY [SCRATCH_DIRECTORY] (with lib/libhf3fs_api_shared.so and bin/penstock)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
cuda=${CUDA_HOME:-/usr/local/cuda}
runtime=$(dirname "$(find -L "$cuda" -name libcudart.so -print -quit)")
work=$(mktemp -d "${2:-/var/tmp}/penstock-usrbio-XXXXXX")
mkdir "$work/mount"
node=

clean_up() {
  if [ -n "$node" ]; then
    kill "$node"
    wait "$node"
  fi
  rm -rf "$work"
}
trap clean_up EXIT

gcc -std=c11 -O2 -Wall -Wextra -I"$source/src/fronts/usrbio/include" -I"$cuda/include" \
  "$here/usrbio_device.c" -o "$work/usrbio_device" -L"$build/lib" -L"$runtime" \
  -Wl,--allow-shlib-undefined -lhf3fs_api_shared -lcudart || exit 1

"$build/bin/penstock" up "$work/store" --mount "$work/mount" --capacity 1073741824 >"$work/log" 2>&1 &
node=$!
for _ in $(seq 100); do
  grep -q 'Running;' "$work/log" && break
  sleep 0.1
done
if ! grep -q 'Running;' "$work/log"; then
  cat "$work/log"
  exit 1
fi
LD_LIBRARY_PATH=$build/lib:$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
  timeout 300 "$work/usrbio_device" "$work/mount"
