#!/usr/bin/env bash
# Runs random programs on a mount of the release build and on the host's file system at once, and
# removes what it made. For root the latter is an ext4 of its own, else a directory. What is given
# goes to the tester (`--help` lists it), but for `--jobs N`: so many parts of the seeds at a time, each
# with a node and an ext4 of its own. `--mounts N`: a cluster of N nodes on loopback, one for each seed,
# and operations are dealt out over their mounts; `--kill M`: one of them is killed or stopped about every M
# operations. PENSTOCK_BUILD names another build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD="${PENSTOCK_BUILD:-build/release}"
if [[ $BUILD != /* ]]; then BUILD=$PWD/$BUILD; fi
export PENSTOCK="$BUILD/bin/penstock"
readonly PENSTOCK TESTER="$BUILD/tests/differential/differential"

jobs=1 first=1 seeds=10 mounts=1
rest=()
while (($#)); do
  case "$1" in
    --jobs) jobs=$2 ;;
    --first) first=$2 ;;
    --seeds) seeds=$2 ;;
    --mounts) mounts=$2 ;;
    *)
      rest+=("$1")
      shift
      continue
      ;;
  esac
  shift 2
done
readonly jobs first seeds mounts

# Each part says what it found when it has ended.
side_by_side() {
  local part=$(((seeds + jobs - 1) / jobs)) begin each parts=() failed=0
  for ((begin = first; begin < first + seeds; begin += part)); do
    local left=$((first + seeds - begin)) said
    said=$(mktemp)
    tools/differential.sh --first "$begin" --seeds $((left < part ? left : part)) --mounts "$mounts" \
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
  tools/differential_cluster.sh "$scratch/cluster" stop
  "$PENSTOCK" down "$scratch/store" >/dev/null 2>&1 || true
  if mountpoint -q "$scratch/host"; then umount "$scratch/host" || umount -l "$scratch/host"; fi
  if mountpoint -q "$scratch/mount"; then umount -l "$scratch/mount" || true; fi
  rm -rf "$scratch"
}
trap clean_up EXIT

on_a_node() {
  local up=("$PENSTOCK" up "$scratch/store" --background --mount "$scratch/mount" --chunk-size 64k
    --capacity 3G --cache 64M --shards 1)
  if ((EUID == 0)); then up+=(--allow-other --mount-options 'suid,dev'); fi
  "${up[@]}" >/dev/null
  "$TESTER" --mount "$scratch/mount" --host "$scratch/host" --first "$first" --seeds "$seeds" "$@"
}

# The seed says what kind of cluster it is, too.
on_clusters() {
  local seed node failed=0
  for ((seed = first; seed < first + seeds; seed++)); do
    mkdir "$scratch/cluster"
    local words=(--host "$scratch/host" --first "$seed" --seeds 1
      --nodes-command "$PWD/tools/differential_cluster.sh $scratch/cluster")
    tools/differential_cluster.sh "$scratch/cluster" start "$seed" "$mounts"
    for ((node = 0; node < mounts; node++)); do words+=(--mount "$scratch/cluster/mount.$node"); done
    if [[ -e $scratch/cluster/has_copies ]]; then words+=(--copies); fi
    "$TESTER" "${words[@]}" "$@" || failed=1
    tools/differential_cluster.sh "$scratch/cluster" stop
    rm -rf "$scratch/cluster"
  done
  return "$failed"
}

if ((EUID == 0)); then
  truncate -s 3G "$scratch/host.img"
  if mkfs.ext4 -q "$scratch/host.img" && mount -o loop "$scratch/host.img" "$scratch/host"; then
    echo "differential: beside an ext4 of its own"
  else
    echo "differential: no ext4 can be mounted here; beside a directory of $(df --output=fstype "$scratch" | tail -1)"
  fi
fi
if ((mounts > 1)); then
  on_clusters ${rest[@]+"${rest[@]}"}
else
  on_a_node ${rest[@]+"${rest[@]}"}
fi
