#!/usr/bin/env bash
# Runs cufile_cold with our libcufile.so.0 and with NVIDIA's by turns, and prints the medians and their ratio. See README.md.
#
#   tests/gpu/cufile_cold.sh BUILD_DIRECTORY [FILE_DIRECTORY [SIZES [THREADS [ROUNDS]]]]
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ ! -e "$1/lib/libcufile.so.0" ]; then
  echo "usage: $0 BUILD_DIRECTORY [FILE_DIRECTORY [SIZES [THREADS [ROUNDS]]]]" >&2
  exit 2
fi
ours=$(cd "$1/lib" && pwd)
files=${2:-/var/tmp}
sizes=${3:-4096 65536 1048576}
threads=${4:-1 4 16}
rounds=${5:-3}
cuda=${CUDA_HOME:-/usr/local/cuda}
work=$(mktemp -d)
file=$files/penstock-cufile-cold-$$
trap 'rm -rf "$work" "$file"' EXIT
"$here/disk_record.sh" "$files" || true

runtime=$(dirname "$(find -L "$cuda" -name libcudart.so -print -quit)")
theirs=${NVIDIA_CUFILE:-$(dirname "$(find -L "$cuda" -name libcufile.so.0 -print -quit)")}
if [ -z "${CUFILE_COLD:-}" ]; then
  CUFILE_COLD=$work/cufile_cold
  g++ -std=c++20 -O2 -I"$source/src/fronts/cufile/include" -I"$cuda/include" "$here/cufile_cold.cc" -o "$CUFILE_COLD" \
    -L"$ours" -L"$runtime" -L"$cuda/lib64/stubs" -Wl,--allow-shlib-undefined -lcufile -lcudart -lcuda -pthread || exit 1
fi
"$CUFILE_COLD" make "$file" "${FILE_MIB:-8192}" || exit 1
# As old as files in use are.
sleep 1

cell() {
  LD_LIBRARY_PATH=$1:$runtime${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 120 "$CUFILE_COLD" "$file" "$2" "$3" \
    "${SECONDS_EACH:-1.5}" 2>&1 | grep -v '^PASS' | tee -a "$work/log" | sed -n '/FAILED/!s/.*threads *\([0-9]*\) reads.*/\1/p'
  return "${PIPESTATUS[0]}"
}
median() { sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 0 }'; }

status=0
printf '%10s %8s %12s %12s %8s\n' bytes threads ours "NVIDIA's" ratio
for size in $sizes; do
  for count in $threads; do
    : >"$work/ours" && : >"$work/theirs"
    for _ in $(seq "$rounds"); do
      cell "$ours" "$size" "$count" >>"$work/ours" || { echo "FAIL ours, $size bytes, $count threads"; tail -3 "$work/log"; status=1; }
      [ "$theirs" = . ] || cell "$theirs" "$size" "$count" >>"$work/theirs" || {
        echo "NVIDIA's library failed, nothing to compare with: $(tail -n 1 "$work/log")"
        theirs=.
      }
    done
    awk -v size="$size" -v count="$count" -v a="$(median <"$work/ours")" -v b="$(median <"$work/theirs")" \
      'BEGIN { printf "%10d %8d %12d %12d %8s\n", size, count, a, b, (b > 0 ? sprintf("%.2f", a / b) : "-") }'
  done
done
exit $status
