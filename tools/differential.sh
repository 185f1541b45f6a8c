#!/usr/bin/env bash
# Runs random programs on a mount of the release build and on the host's file system at once, and
# removes what it made. For root the latter is an ext4 of its own, else a directory. What is given
# goes to the tester (`--help` lists it), but for `--jobs N`: so many parts of the seeds at a time, each
# with a node and an ext4 of its own. PENSTOCK_BUILD names another build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BUILD="${PENSTOCK_BUILD:-build/release}"
readonly PENSTOCK="$PWD/$BUILD/bin/penstock" TESTER="$PWD/$BUILD/tests/differential/differential"

jobs=1 first=1 seeds=10
rest=()
while (($#)); do
  case "$1" in
    --jobs) jobs=$2 ;;
    --first) first=$2 ;;
    --seeds) seeds=$2 ;;
    *)
      rest+=("$1")
      shift
      continue
      ;;
  esac
  shift 2
done
readonly jobs first seeds

# Each part says what it found when it has ended.
side_by_side() {
  local part=$(((seeds + jobs - 1) / jobs)) begin each parts=() failed=0
  for ((begin = first; begin < first + seeds; begin += part)); do
    local left=$((first + seeds - begin)) said
    said=$(mktemp)
    tools/differential.sh --first "$begin" --seeds $((left < part ? left : part)) \
      ${rest[@]+"${rest[@]}"} >"$said" 2>&1 &
    parts+=("$!:$said")
  done
  for each in "${parts[@]}"; do
    wait "${each%%:*}" || failed=1
    cat "${each#*:}"
    rm "${each#*:}"
  done
  return "$failed"
}
if ((jobs > 1)); then
  side_by_side
  exit
fi

# In memory where there is some: programs sync often.
scratch=$(mktemp -d "$([[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/penstock-differential-XXXXXX")
chmod 755 "$scratch"
mkdir "$scratch/mount" "$scratch/host"

clean_up() {
  "$PENSTOCK" down "$scratch/store" >/dev/null 2>&1 || true
  if mountpoint -q "$scratch/host"; then umount "$scratch/host" || umount -l "$scratch/host"; fi
  if mountpoint -q "$scratch/mount"; then umount -l "$scratch/mount" || true; fi
  rm -rf "$scratch"
}
trap clean_up EXIT

up=("$PENSTOCK" up "$scratch/store" --background --mount "$scratch/mount" --chunk-size 64k
  --capacity 3G --cache 64M --shards 1)
if ((EUID == 0)); then
  truncate -s 3G "$scratch/host.img"
  if mkfs.ext4 -q "$scratch/host.img" && mount -o loop "$scratch/host.img" "$scratch/host"; then
    echo "differential: beside an ext4 of its own"
  else
    echo "differential: no ext4 can be mounted here; beside a directory of $(df --output=fstype "$scratch" | tail -1)"
  fi
  up+=(--allow-other --mount-options 'suid,dev')
fi
"${up[@]}" >/dev/null
"$TESTER" --mount "$scratch/mount" --host "$scratch/host" --first "$first" --seeds "$seeds" \
  ${rest[@]+"${rest[@]}"}
