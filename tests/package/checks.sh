# shellcheck shell=bash
# Checks that are counted; sourced by the scripts beside it.
passed=0 failed=0 skipped=0

# check WHAT COMMAND...: what it says is shown only when it fails.
check() {
  local what=$1 output
  shift
  if output=$("$@" 2>&1); then
    printf 'ok    %s\n' "$what"
    ((++passed))
  else
    printf 'FAIL  %s\n' "$what"
    [[ -z $output ]] || printf '%s\n' "$output" | sed 's/^/      /'
    ((++failed))
  fi
}

skip() {
  printf 'skip  %s: %s\n' "$1" "$2"
  ((++skipped))
}

# is WHAT WANTED: whether they are the same, with both when not.
is() {
  [[ $1 == "$2" ]] && return
  if [[ $1$2 == *$'\n'* ]]; then
    diff <(printf '%s\n' "$2") <(printf '%s\n' "$1") | head -n 30
  else
    printf 'got:    %s\nwanted: %s\n' "$1" "$2"
  fi
  return 1
}

# has TEXT PART...: whether each part is in it.
has() {
  local text=$1 part rc=0
  shift
  for part in "$@"; do
    [[ $text == *"$part"* ]] || {
      printf 'not there: %s\n' "$part"
      rc=1
    }
  done
  ((rc == 0)) || printf 'in:\n%s\n' "$text"
  return "$rc"
}

# nothing TEXT: whether it is empty.
nothing() {
  [[ -z $1 ]] || {
    printf '%s\n' "$1"
    return 1
  }
}
