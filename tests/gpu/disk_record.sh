#!/usr/bin/env bash
# NVIDIA's libcufile.so.0 refuses files on a disk of which udev has no record, and containers have no udev. As root, and only
# where there is none yet, this writes one for the disk of DIRECTORY, with what is known of it (see docs/gpu-facts.md).
#
#   tests/gpu/disk_record.sh DIRECTORY
set -uo pipefail

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
  echo "usage: $0 DIRECTORY" >&2
  exit 2
fi
read -r device type < <(findmnt --noheadings --output MAJ:MIN,FSTYPE --target "$1")
record=/run/udev/data/b$device
[ ! -e "$record" ] || exit 0
if [ "$(id -u)" -ne 0 ] || [ "${device%%:*}" = 0 ]; then
  echo "$0: $1: no record of udev for device $device; NVIDIA's library will refuse its files (run as root, on a disk)" >&2
  exit 1
fi
id=00000000-0000-0000-0000-$(printf '%06x%06x' "${device%%:*}" "${device##*:}")
mkdir -p "${record%/*}"
printf '%s\n' "S:disk/by-uuid/$id" "E:ID_FS_TYPE=$type" "E:ID_FS_UUID=$id" E:ID_FS_USAGE=filesystem \
  E:ID_SERIAL=unknown E:ID_MODEL=unknown E:ID_BUS=virtio >"$record"
echo "wrote $record for NVIDIA's library"
