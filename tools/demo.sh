#!/usr/bin/env bash
# What `./dev demo [SRC] [--keep]` does once the release build stands: a node in a scratch directory,
# a real tree in it, every byte verified, the short benchmark, and everything gone again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PENSTOCK=$PWD/build/release/bin/penstock
# The default tree: at least the first, at most the second, from /usr.
readonly DEFAULT_BYTES_MIN=2000000000 DEFAULT_BYTES_MAX=4000000000
# What the node and the benchmark need beside the tree itself.
readonly SPARE_BYTES=4000000000

keep='' sources=() scratch='' node=''

heading() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
if [[ ! -t 1 ]]; then heading() { printf '\n== %s\n' "$*"; }; fi
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
human() { numfmt --to=si --suffix=B "$1"; }

# Chooses whole directories of /usr until there is enough: first those with many small files, then, a
# level down, the largest that fit.
choose_default() {
  local sizes name size path total=0
  sizes=$(du -x -B1 --max-depth=2 /usr 2>/dev/null | sort -rn) || true
  {
    for name in share include bin libexec lib local; do
      grep -P "\t/usr/$name\$" <<<"$sizes" || true
    done
    grep -P '\t/usr/[^/]+/[^/]+$' <<<"$sizes" || true
  } >"$scratch/sizes"
  while read -r size path; do
    ((size > 0 && total + size <= DEFAULT_BYTES_MAX)) || continue
    [[ " ${sources[*]} " != *" ${path%/*} "* ]] || continue
    [[ -z $(find "$path" -xdev ! -type l ! -readable -print -quit 2>/dev/null) ]] || continue
    sources+=("$path")
    ((total += size))
    ((total < DEFAULT_BYTES_MIN)) || break
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
  if [[ -z $no_mount ]]; then
    mkdir "$mount"
    "$PENSTOCK" up "$store" --mount "$mount" --background
  else
    echo "without a mount: $no_mount"
    "$PENSTOCK" up "$store" --background
  fi

  heading "Import: $(human "$bytes") from ${sources[*]}"
  local source
  for source in "${sources[@]}"; do
    "$PENSTOCK" import "$source" "$store:$source"
  done

  heading "Verify through rings: every byte against its source"
  for source in "${sources[@]}"; do
    "$PENSTOCK" verify "$source" "$store:$source"
  done
  if [[ -z $no_mount ]]; then
    heading "Verify through the mount: names, types, modes, links and every byte"
    for source in "${sources[@]}"; do
      python3 tools/compare_trees.py "$source" "$mount$source"
    done
  fi
  "$PENSTOCK" status "$store"

  heading "The short benchmark, beside the same disk read directly"
  "$PENSTOCK" bench --quick --dir "$scratch"

  heading "Next"
  if [[ -n $keep ]]; then
    echo "The node is still up. Stop it with:  $PENSTOCK down $store && rm -rf $scratch"
    [[ -n $no_mount ]] || echo "Its files are under:                 $mount"
  else
    echo "Keep the node next time:             ./dev demo --keep"
  fi
  echo "A node of your own:                  build/release/bin/penstock up DIR --mount PATH"
  echo "From C:                              build/release/include/penstock.h, -lpenstock"
  echo "A program written for 3FS USRBIO:    build/release/include/hf3fs_usrbio.h, -lhf3fs_api_shared"
  echo "The whole benchmark:                 ./dev bench --json bench.json"
}

main "$@"
