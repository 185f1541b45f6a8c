#!/usr/bin/env bash
# What `./dev demo [SRC] [--keep]` does once the release build stands: a node in a scratch directory,
# a real tree in it, every byte verified, the short benchmark, and everything gone again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PENSTOCK=$PWD/build/release/bin/penstock
# The default tree: no more of /usr than these, and nothing more once it has the least.
readonly DEFAULT_BYTES_MIN=600000000 DEFAULT_BYTES_MAX=1000000000 DEFAULT_FILES_MAX=40000
# What the node and the benchmark need beside the tree itself.
readonly SPARE_BYTES=4000000000

keep='' sources=() scratch='' node='' recovered=''

# With the time since the beginning.
heading() { printf '\n\033[1m== %d:%02d  %s\033[0m\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }
if [[ ! -t 1 ]]; then heading() { printf '\n== %d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }; fi
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
human() { numfmt --to=si --suffix=B "$1"; }

# Chooses whole directories of /usr until there is enough: first those with many small files, then, a
# level down, the largest that fit. The same machine gives the same choice.
choose_default() {
  local sizes name path size files bytes_left=$DEFAULT_BYTES_MAX files_left=$DEFAULT_FILES_MAX
  sizes=$(du -x -B1 --max-depth=2 /usr 2>/dev/null | sort -k1,1rn -k2,2) || true
  {
    for name in include share bin libexec lib local; do
      grep -P "\t/usr/$name\$" <<<"$sizes" || true
    done
    grep -P '\t/usr/[^/]+/[^/]+$' <<<"$sizes" || true
  } >"$scratch/sizes"
  while read -r size path; do
    ((size > 0 && size <= bytes_left)) || continue
    [[ " ${sources[*]} " != *" ${path%/*} "* ]] || continue
    files=$(find "$path" -xdev 2>/dev/null | wc -l)
    ((files <= files_left)) || continue
    [[ -z $(find "$path" -xdev ! -type l ! -readable -print -quit 2>/dev/null) ]] || continue
    sources+=("$path")
    ((bytes_left -= size, files_left -= files)) || true
    ((DEFAULT_BYTES_MAX - bytes_left < DEFAULT_BYTES_MIN)) || break
  done <"$scratch/sizes"
  ((${#sources[@]} > 0)) || fail "found nothing to import under /usr (name a directory: ./dev demo SRC)"
}

why_no_mount() {
  if [[ ! -w /dev/fuse ]]; then
    echo "/dev/fuse is not writable here"
  elif ((EUID != 0)) && ! command -v fusermount3 >/dev/null; then
    echo "fusermount3 is missing (apt-get install fuse3)"
  fi
}

start_node() {
  if [[ -z $no_mount ]]; then
    "$PENSTOCK" up "$store" --mount "$mount" --background
  else
    "$PENSTOCK" up "$store" --background
  fi
}

# Kills the node in the middle of an import and starts it again. Leaves in `recovered` how long it took
# to be there again, in seconds.
kill_node() {
  local pid importer began
  pid=$("$PENSTOCK" status --json "$store" | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')
  "$PENSTOCK" import --quiet "${sources[0]}" "$store:/interrupted" >/dev/null 2>&1 &
  importer=$!
  sleep 0.5
  kill -KILL "$pid"
  began=$(date +%s%N)
  start_node >/dev/null
  recovered=$(awk -v ns=$(($(date +%s%N) - began)) 'BEGIN { printf "%.1f", ns / 1e9 }')
  kill "$importer" 2>/dev/null || true
  wait "$importer" 2>/dev/null || true
  echo "killed process $pid (kill -9) in the middle of an import; the node was there again after $recovered s"
}

# Every step before has ended the demo if there was a difference.
last_page() {
  local files bytes compared
  bytes=$(find "${sources[@]}" -xdev -type f -printf '%s\n' | awk '{ all += $1 } END { printf "%.0f", all }')
  files=$(awk '$1 == "verified" { all += $2 } END { print all }' "$scratch/verified")
  printf '  %-60s %10s\n' "proven" "differences"
  printf '  %s\n' "--------------------------------------------------------------------------"
  printf '  %-60s %10s\n' "$files files, $(human "$bytes"), read back through rings: every byte" 0
  if [[ -z $no_mount ]]; then
    compared=$(awk '{ files += $1; directories += $3; links += $5 } END { print files + directories + links }' "$scratch/compared")
    printf '  %-60s %10s\n' "through the mount: $compared names, modes, links; every byte" 0
  fi
  printf '  %s\n' "The node had been killed (kill -9) before that, and was back after $recovered s."
  echo
  python3 tools/demo_table.py "$scratch/bench.json"
  printf '  %s\n' "reference: fio with O_DIRECT on the same disk; of the mount, libfuse's" \
    "passthrough_ll. All of it, with what bounds it: bench/results, docs/limits.md"
}

clean_up() {
  local rc=$?
  trap - EXIT INT TERM
  if [[ -n $keep ]]; then
    ((rc == 0)) || echo "failed; kept $scratch (stop the node with: $PENSTOCK down $node)"
    exit "$rc"
  fi
  if [[ -n $node ]]; then
    "$PENSTOCK" down "$node" >/dev/null 2>&1 || true
  fi
  if [[ -n $scratch ]]; then
    # A mount that outlived its node (or an interrupted benchmark) would make rm -rf stumble.
    local left
    while read -r _ left _; do
      [[ $left == "$scratch"/* ]] || continue
      fusermount3 -u -z "$left" 2>/dev/null || umount -l "$left" 2>/dev/null || true
    done </proc/self/mounts
    rm -rf --one-file-system "$scratch"
    echo "cleaned up $scratch"
  fi
  exit "$rc"
}

main() {
  while (($#)); do
    case "$1" in
      --keep) keep=1 ;;
      -*) fail "unknown option $1 (./dev demo [SRC] [--keep])" ;;
      *) [[ -d $1 ]] || fail "$1: not a directory"; sources+=("$(realpath "$1")") ;;
    esac
    shift
  done

  local base=${TMPDIR:-/var/tmp} bytes free
  scratch=$(mktemp -d "$base/penstock-demo.XXXXXX")
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  ((${#sources[@]} > 0)) || choose_default
  bytes=$({ du -x -s -c -B1 "${sources[@]}" 2>/dev/null || true; } | tail -n 1 | cut -f1)
  free=$(df -B1 --output=avail "$base" | tail -n 1)
  ((free >= bytes + bytes / 5 + SPARE_BYTES)) ||
    fail "$base: $(human "$free") free, $(human $((bytes + bytes / 5 + SPARE_BYTES))) needed (set TMPDIR to a directory on a larger disk)"

  heading "A node in $scratch"
  local store=$scratch/store mount=$scratch/mount no_mount
  no_mount=$(why_no_mount)
  node=$store
  if [[ -n $no_mount ]]; then echo "without a mount: $no_mount"; else mkdir "$mount"; fi
  start_node | sed '/^Next:/,$d'

  heading "Import $(human "$bytes"): ${sources[*]}"
  local source
  for source in "${sources[@]}"; do
    "$PENSTOCK" import "$source" "$store:$source"
  done

  heading "Kill the node, and start it again"
  kill_node

  heading "Verify through rings: every byte against its source"
  for source in "${sources[@]}"; do
    "$PENSTOCK" verify "$source" "$store:$source" | tee -a "$scratch/verified"
  done
  if [[ -z $no_mount ]]; then
    heading "Verify through the mount: names, types, modes, links and every byte"
    for source in "${sources[@]}"; do
      python3 tools/compare_trees.py "$source" "$mount$source" | tee -a "$scratch/compared"
    done
  fi

  heading "Measure: a point is one measurement, a number Penstock's rate by the reference's"
  "$PENSTOCK" bench --quick --seconds 1 --size 512MiB --dir "$scratch" --json "$scratch/bench.json" ring mount >/dev/null

  heading "What was proven, and how fast it was"
  last_page

  echo
  if [[ -n $keep ]]; then
    echo "  The node is still up; stop it:  $PENSTOCK down $store && rm -rf $scratch"
    [[ -n $no_mount ]] || echo "  Its files are under:            $mount"
  else
    echo "  Look around in it:   ./dev demo --keep"
  fi
  echo "  A node of your own:  build/release/bin/penstock up DIR --mount PATH -b"
  echo "  From C:              build/release/include/penstock.h, -lpenstock"
}

main "$@"
