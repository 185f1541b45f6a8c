#!/usr/bin/env bash
# Everything that `./dev check` holds the tree to. Each check runs even when an earlier one failed. With
# --all also what takes long: every header and every source by itself, tests too.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

jobs=${PENSTOCK_JOBS:-$(nproc)}
failed=()

# check NAME COMMAND...: prints the command's output only when it says something or fails.
check() {
  local name=$1 started=$SECONDS rc=0 output
  shift
  output=$("$@" 2>&1) || rc=$?
  [[ -z $output ]] || printf '%s\n' "$output"
  if ((rc != 0)); then
    failed+=("$name")
    printf '%-8s FAILED (%d s)\n' "$name" $((SECONDS - started))
  else
    printf '%-8s ok (%d s)\n' "$name" $((SECONDS - started))
  fi
}

# The checks are tested before they judge.
own_tests() {
  local output
  output=$(PYTHONPATH=tools python3 -m unittest discover -s tools/tests 2>&1) || {
    printf '%s\n' "$output"
    return 1
  }
}

# clang-tidy reads what the dev build compiles.
tidy() {
  cmake --preset dev >/dev/null && python3 tools/run_tidy.py --build build/dev --jobs "$jobs"
}

# Every public header compiles alone.
headers_alone() {
  local output
  output=$(cmake --preset apart 2>&1 && cmake --build build/apart -j "$jobs" --target all_verify_interface_header_sets 2>&1) || {
    printf '%s\n' "$output"
    return 1
  }
}

# Every source and test by itself, so that an include that one lacks is found (decision 0041).
sources_alone() {
  cmake --preset apart >/dev/null && python3 tools/run_tidy.py --build build/apart --jobs "$jobs" --all
}

check tools own_tests
check layers python3 tools/check_layers.py
check source python3 tools/check_source.py
check docs python3 tools/check_references.py
check limits python3 tools/list_limits.py
check tests python3 tools/check_tests.py
check asserts python3 tools/count_assertions.py --least 12 ring arena kv store controller chunks chain meta meta_text inodes shards client resources \
  node_cache serving sessions session_server membership agent route local
check shell shellcheck -x dev .ci/run tools/*.sh tests/package/*.sh debian/penstock.p*
check format tools/check_format.sh
if [[ ${1:-} == --all ]]; then
  check headers headers_alone
  check tidy sources_alone
else
  check tidy tidy
fi

if ((${#failed[@]} > 0)); then
  echo "check failed: ${failed[*]}"
  exit 1
fi
echo "check passed"
