#!/usr/bin/env bash
# A cluster on loopback whose nodes all mount its files, for the differential tester. SCRATCH holds it:
# node I in store.I, its mount at mount.I; the first (0) has the names.
#   differential_cluster.sh SCRATCH start SEED N   the seed says which one is a client without disks,
#                                                  and how many copies there are
#   differential_cluster.sh SCRATCH lose I HOW MS  HOW: 0 killed, 1 killed in MS, 2 stopped for MS
#   differential_cluster.sh SCRATCH restore I      returns when its mount is there again, and all copies
#   differential_cluster.sh SCRATCH stop
# PENSTOCK names the command.
set -euo pipefail

readonly SCRATCH=$1 ACTION=$2
readonly OPTIONS=(--background --cache 64M)
mounted=()
if ((EUID == 0)); then mounted=(--allow-other --mount-options 'suid,dev'); fi

# Of a node that has written it down: it cannot be asked while it is stopped.
process_of() { cat "$SCRATCH/pid.$1"; }

note_process() {
  "$PENSTOCK" status "$SCRATCH/store.$1" --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])' >"$SCRATCH/pid.$1"
}

token() {
  "$PENSTOCK" token create "$SCRATCH/store.0" --json "$@" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["invitation"])'
}

join() {
  local node=$1 roles=()
  shift
  if (($#)); then roles=(--roles "$1"); fi
  "$PENSTOCK" join "$(token "${roles[@]}")" "$SCRATCH/store.$node" "${roles[@]}" "${OPTIONS[@]}" \
    --shards 1 --mount "$SCRATCH/mount.$node" "${mounted[@]}" >/dev/null
  note_process "$node"
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start() {
  local seed=$1 count=$2 node client=0 copies
  for ((node = 0; node < count; node++)); do mkdir -p "$SCRATCH/mount.$node"; done
  "$PENSTOCK" up "$SCRATCH/store.0" "${OPTIONS[@]}" --listen "127.0.0.1:$(free_port)" --chunk-size 64k --capacity 3G --shards 1 \
    --mount "$SCRATCH/mount.0" "${mounted[@]}" >/dev/null
  note_process 0
  if ((count > 2 && seed % 2 == 0)); then client=$((count - 1)); fi
  for ((node = 1; node < count; node++)); do
    if ((node == client)); then join "$node" agent; else join "$node"; fi
  done
  # 0: chains of the first node alone.
  copies=$((seed / 2 % 4))
  local disks=$((client ? count - 1 : count))
  if ((copies > disks)); then copies=$disks; fi
  if ((copies)); then "$PENSTOCK" set "$SCRATCH/store.0:/" --copies "$copies" >/dev/null; fi
  if ((copies > 1)); then touch "$SCRATCH/has_copies"; fi
  echo "differential: $count nodes, $((client ? 1 : 0)) of them without disks, ${copies/#0/no} copies"
}

# Before another node is lost: two of a chain are more than it bears.
await_copies() {
  [[ -e $SCRATCH/has_copies ]] || return 0
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    if "$PENSTOCK" cluster "$SCRATCH/store.0" --json 2>/dev/null |
      python3 -c 'import json, sys; all = json.load(sys.stdin); sys.exit(all["whole"] != all["chains"])' 2>/dev/null; then
      return
    fi
    sleep 0.1
  done
  echo "differential: not all copies are there a minute after a node came back" >&2
}

lose() {
  local node=$1 how=$2 ms=$3 process seconds
  process=$(process_of "$node")
  seconds=$((ms / 1000)).$(printf %03d $((ms % 1000)))
  case "$how" in
    0) kill -KILL "$process" ;;
    1) (sleep "$seconds"; kill -KILL "$process") >/dev/null 2>&1 & ;;
    2)
      kill -STOP "$process"
      (sleep "$seconds"; kill -CONT "$process"; rm -f "$SCRATCH/stopped.$node") >/dev/null 2>&1 &
      touch "$SCRATCH/stopped.$node"
      ;;
  esac
  echo "$how" >"$SCRATCH/lost.$node"
}

restore() {
  local node=$1 process
  process=$(process_of "$node")
  if [[ $(cat "$SCRATCH/lost.$node") == 2 ]]; then
    while [[ -e $SCRATCH/stopped.$node ]]; do sleep 0.05; done
    # What it gives out first may be older than what others did meanwhile by so much.
    sleep 1.1
    await_copies
    return
  fi
  while kill -0 "$process" 2>/dev/null; do sleep 0.01; done
  umount -l "$SCRATCH/mount.$node" 2>/dev/null || true
  "$PENSTOCK" up "$SCRATCH/store.$node" "${OPTIONS[@]}" --mount "$SCRATCH/mount.$node" "${mounted[@]}" >/dev/null
  note_process "$node"
  await_copies
}

stop() {
  local store node
  for store in $(ls -dr "$SCRATCH"/store.* 2>/dev/null || true); do
    node=${store##*.}
    if [[ -e $SCRATCH/pid.$node ]]; then kill -CONT "$(process_of "$node")" 2>/dev/null || true; fi
    "$PENSTOCK" down "$store" >/dev/null 2>&1 || true
    if mountpoint -q "$SCRATCH/mount.$node"; then umount -l "$SCRATCH/mount.$node" || true; fi
  done
}

shift 2
"$ACTION" "$@"
