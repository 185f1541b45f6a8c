#!/usr/bin/env bash
# Starts two nodes of a cluster on loopback and runs kernel_ring_stopped on them. See README.md.
#
#   tests/gpu/stopped_node.sh BUILD_DIRECTORY [SCRATCH_DIRECTORY]
set -uo pipefail

if [ $# -lt 1 ] || [ ! -x "$1/bin/penstock" ]; then
  echo "usage: $0 BUILD_DIRECTORY [SCRATCH_DIRECTORY] (with bin/penstock)" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
penstock=$build/bin/penstock
program=$(find "$build" -name kernel_ring_stopped -type f -perm -u+x -print -quit)
[ -n "$program" ] || { echo "no kernel_ring_stopped in $build: built without CUDA" >&2; exit 2; }
work=$(mktemp -d "${2:-/var/tmp}/penstock-stopped-node-XXXXXX")
clean_up() {
  "$penstock" down "$work/reader" >/dev/null 2>&1
  "$penstock" down "$work/writer" >/dev/null 2>&1
  rm -rf "$work"
}
trap clean_up EXIT

# said KEY COMMAND...: what a command says under a key.
said() {
  "$penstock" "${@:2}" --json | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}

address=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print("127.0.0.1:%d" % s.getsockname()[1])')
"$penstock" up "$work/writer" -b --listen "$address" --capacity 1G --cache 0 >/dev/null || exit 1
"$penstock" join "$(said invitation token create "$work/writer")" "$work/reader" -b --capacity 1G --cache 64M >/dev/null || exit 1
timeout 240 "$program" "$work/writer" "$work/reader" "$(said pid status "$work/reader")"
