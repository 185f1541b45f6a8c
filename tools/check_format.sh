#!/usr/bin/env bash
# Names each file that clang-format would change, at the first such line; --fix changes them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# over OPTION...: clang-format over all code, several files at once.
over() {
  find src tests bench examples -type f \
    \( -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 -r -n 16 -P "$(nproc)" clang-format "$@"
}

if [[ "${1:-}" == --fix ]]; then
  over -i
  exit
fi
if ! faults=$(over --dry-run --Werror --ferror-limit=1 2>&1); then
  sed -nE 's/^([^:]+:[0-9]+):[0-9]+: error: .*/\1: not as clang-format has it (.\/dev fmt)/p' <<<"$faults" |
    sort -u -t: -k1,1
  exit 1
fi
