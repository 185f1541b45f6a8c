#!/usr/bin/env bash
# Runs random programs on a mount of the release build and on the host's file system at once, and
# removes what it made. For root the latter is an ext4 of its own, else a directory. What is given
# goes to the tester (`--help` lists it); PENSTOCK_BUILD names another build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BUILD="${PENSTOCK_BUILD:-build/release}"
readonly PENSTOCK="$PWD/$BUILD/bin/penstock" TESTER="$PWD/$BUILD/tests/differential/differential"

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
"$TESTER" --mount "$scratch/mount" --host "$scratch/host" "$@"
