#!/usr/bin/env bash
# Runs a program where there is RDMA: in emulated machines with Debian's kernel and its soft-RoCE.
#
#   tools/verbs_guest.sh [--nodes 1|2|3] [--seconds N] [--add FILE]... PROGRAM [ARGUMENT...]
#
# PROGRAM goes into each guest with the shared libraries that it needs. It finds there:
#   - the device rxe0 on the interface eth0, address 10.77.0.NODE (its GID with index 1), MTU 4200;
#   - PENSTOCK_NODE (1, 2, 3) and PENSTOCK_NODES in its environment, and others' addresses by that rule: two are
#     joined by a cable of their own, three by a hub, which is at the first;
#   - busybox's commands, ip, rdma, and perftest's ib_* in PATH. A PROGRAM without a slash is one of these.
# What it prints is printed, with several nodes behind "1| ", "2| " and "3| ". The exit status is that of the first node
# that had another than 0; the guests end with it. 77: skipped, as something is missing here that the last line
# names. 124: not done after N seconds (300).
#
# Nothing is installed: kernel and RDMA packages are downloaded once and unpacked below
# ${PENSTOCK_GUEST_CACHE:-build/guest}. This host needs what tools/packages.txt lists under "verbs". All is
# emulated (TCG), also the processor: results are right, and slow.
set -euo pipefail
shopt -s nullglob
# Bytes are searched below.
export LC_ALL=C

readonly SKIPPED=77
readonly TRIPLE=x86_64-linux-gnu
# In the guest; the loader's own path comes from the host's Debian, which is of the same release.
readonly PACKAGES=(libibverbs1 ibverbs-providers ibverbs-utils librdmacm1 perftest iproute2 libibumad3 libpci3
  libnl-3-200 libnl-route-3-200 libmnl0 libbpf1 libelf1 zlib1g libcap2 libbsd0 libmd0)
readonly COMMANDS=(usr/bin/ibv_devinfo usr/bin/ib_write_bw usr/bin/ib_read_bw usr/bin/ib_send_lat usr/bin/ib_write_lat
  usr/bin/ib_read_lat usr/bin/rdma bin/ip)
# Those that others need first: modprobe finds them.
readonly MODULES=(crc32c_generic crc32_generic virtio_pci virtio_net ib_uverbs rdma_rxe tls
  aesni_intel gcm ctr ghash-generic)

skip() {
  echo "verbs_guest: skipped: $*" >&2
  exit "$SKIPPED"
}

usage() {
  echo "verbs_guest: $* (try: tools/verbs_guest.sh --nodes 2 PROGRAM)" >&2
  exit 2
}

need_host() {
  local command
  [[ $(uname -m) == x86_64 ]] || skip "the guest is an x86_64"
  for command in qemu-system-x86_64 busybox cpio depmod modprobe xz strip apt-get dpkg-deb; do
    command -v "$command" >/dev/null || skip "there is no $command (packages: the group verbs of tools/packages.txt)"
  done
}

# The guest's system, in $cache: vmlinux, and base.cpio, made again when this script changes.
prepare() {
  local stamp
  stamp=$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-16)
  [[ -e $cache/made && $(<"$cache/made") == "$stamp" ]] && return
  rm -rf "$cache/made" "$cache/root"
  mkdir -p "$cache/packages" "$cache/unpacked" "$cache/root"
  download
  unpack_kernel
  fill_root
  (cd "$cache/root" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$cache/base.cpio"
  echo "$stamp" >"$cache/made"
}

download() {
  local image missing=() package
  image=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [[ -n $image ]] || skip "apt knows no kernel (run: apt-get update)"
  echo "${image#linux-image-}" >"$cache/release"
  for package in "$image" "${PACKAGES[@]}"; do
    compgen -G "$cache/packages/${package}_*.deb" >/dev/null || missing+=("$package")
  done
  ((${#missing[@]} == 0)) && return
  echo "verbs_guest: downloading ${#missing[@]} packages into $cache" >&2
  (cd "$cache/packages" && apt-get -qq download "${missing[@]}" >/dev/null 2>&1) || skip "apt-get download failed"
}

# An uncompressed kernel starts without decompressing itself on an emulated processor.
unpack_kernel() {
  local release deb offset
  release=$(<"$cache/release")
  for deb in "$cache"/packages/*.deb; do dpkg-deb --extract "$deb" "$cache/unpacked"; done
  depmod --basedir "$cache/unpacked" "$release"
  while IFS=: read -r offset _; do
    { tail --bytes=+$((offset + 1)) "$cache/unpacked/boot/vmlinuz-$release" | xz --decompress --stdout; } >"$cache/vmlinux" 2>/dev/null || true
    [[ $(head --bytes=4 "$cache/vmlinux" | tail --bytes=3) == ELF ]] && return
  done < <(grep --only-matching --byte-offset --text --perl-regexp '\xFD7zXZ\x00' "$cache/unpacked/boot/vmlinuz-$release")
  skip "the kernel of $release is packed in a way that is not known here"
}

# libraries_of FILE...: paths of the shared libraries that they load, the loader among them.
libraries_of() {
  { ldd "$@" 2>/dev/null || true; } | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (0x.*/\1/p' | sort --unique
}

fill_root() {
  local root=$cache/root from=$cache/unpacked command module file libraries
  mkdir -p "$root"/{bin,dev,etc/libibverbs.d,lib/modules,lib64,proc,sys,tmp,program} "$root/usr/lib/$TRIPLE/libibverbs"
  cp "$(command -v busybox)" "$root/bin/busybox"
  for command in $(busybox --list); do ln -s busybox "$root/bin/$command" 2>/dev/null || true; done
  for command in "${COMMANDS[@]}"; do cp --remove-destination "$from/$command" "$root/bin/"; done
  mapfile -t libraries < <(LD_LIBRARY_PATH=$from/usr/lib/$TRIPLE:$from/lib/$TRIPLE libraries_of "${COMMANDS[@]/#/$from/}")
  # glibc opens libgcc_s by name when a thread ends.
  cp --dereference "${libraries[@]}" "/lib/$TRIPLE/libgcc_s.so.1" "$root/usr/lib/$TRIPLE/"
  ln -s "../usr/lib/$TRIPLE" "$root/lib/$TRIPLE"
  cp --dereference /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
  cp "$from/usr/lib/$TRIPLE"/libibverbs/librxe-*.so "$root/usr/lib/$TRIPLE/libibverbs/"
  cp "$from/etc/libibverbs.d/rxe.driver" "$root/etc/libibverbs.d/"
  for module in "${MODULES[@]}"; do
    while read -r _ file _; do
      [[ -e $root/lib/modules/${file##*/} ]] && continue
      strip --strip-debug -o "$root/lib/modules/${file##*/}" "$file"
      echo "${file##*/}" >>"$root/lib/modules/order"
    done < <(modprobe --dirname "$from" --set-version "$(<"$cache/release")" --show-depends "$module" | grep ^insmod)
  done
  write_init >"$root/init"
  chmod +x "$root/init"
}

# The first process of a guest. It tells the exit status on the second serial line, and switches off.
write_init() {
  cat <<'INIT'
#!/bin/busybox sh
export PATH=/bin HOME=/tmp
mount -t devtmpfs none /dev && mount -t proc none /proc && mount -t sysfs none /sys && mount -t tmpfs none /tmp
mkdir -p /dev/shm && mount -t tmpfs none /dev/shm
exec </dev/null >/dev/ttyS0 2>&1
read_word() { sed -n "s/.*$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
export PENSTOCK_NODE=$(read_word penstock.node) PENSTOCK_NODES=$(read_word penstock.nodes)
while read -r module; do insmod /lib/modules/$module || echo "guest: no $module"; done </lib/modules/order
ip link set lo up
ip address add 10.77.0.$PENSTOCK_NODE/24 dev eth0
ip link set eth0 mtu 4200 up
rdma link add rxe0 type rxe netdev eth0
tries=0
until grep -q ffff /sys/class/infiniband/rxe0/ports/1/gids/1 2>/dev/null || [ $tries = 100 ]; do
  tries=$((tries + 1))
  usleep 50000
done
ulimit -l unlimited
cd /program
LD_LIBRARY_PATH=/program/lib sh ./start
echo $? >/dev/ttyS1
poweroff -f
INIT
}

# What this run adds to the system: the program, its libraries, and how to start it.
add_program() {
  local program=$work/program/program file
  mkdir -p "$program/lib"
  if [[ $1 == */* ]]; then
    cp --dereference "$1" "$program/"
    printf 'exec ./%q' "${1##*/}" >"$program/start"
    for file in $(libraries_of "$1"); do cp --dereference --update "$file" "$program/lib/"; done
  else
    printf 'exec %q' "$1" >"$program/start"
  fi
  printf ' %q' "${@:2}" >>"$program/start"
  for file in "${added[@]}"; do
    cp --dereference "$file" "$program/"
    for library in $(libraries_of "$file"); do cp --dereference --update "$library" "$program/lib/"; done
  done
  (cd "$work/program" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/program.cpio"
  cat "$cache/base.cpio" "$work/program.cpio" >"$work/initrd"
}

# start_guest NODE: in the background; its output in $work/NODE.log, its status in $work/NODE.status.
start_guest() {
  local node=$1 wires=() other
  if ((nodes == 1)); then
    wires=(-netdev "user,id=wire,restrict=on,ipv6=off")
  elif ((node > 1)); then
    wires=(-netdev "stream,id=wire,addr.type=unix,addr.path=$work/wire$node,server=off")
  else
    wires=(-netdev "hubport,id=wire,hubid=0")
    for ((other = 2; other <= nodes; ++other)); do
      wires+=(-netdev "stream,id=cable$other,addr.type=unix,addr.path=$work/wire$other,server=on"
        -netdev "hubport,id=port$other,hubid=0,netdev=cable$other")
    done
  fi
  qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -smp 2 -m "${PENSTOCK_GUEST_MIB:-768}" \
    -nodefaults -display none -no-reboot -kernel "$cache/vmlinux" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off penstock.node=$node penstock.nodes=$nodes" \
    "${wires[@]}" -device "virtio-net-pci,netdev=wire,romfile=,host_mtu=4200,mac=52:54:00:00:77:0$node" \
    -serial stdio -serial "file:$work/$node.status" </dev/null \
    > >(tr --delete "\r" | sed --unbuffered "/reboot: Power down$/d; $( ((nodes == 1)) || echo "s/^/$node| /")") 2>&1 &
  guests+=($!)
}

# shellcheck disable=SC2317
end_guests() {
  local guest
  for guest in "${guests[@]}"; do kill "$guest" 2>/dev/null || true; done
  rm -rf "$work"
}

# 0 when all guests have told a status; the first that is not 0 ends the waiting.
wait_for_guests() {
  local until=$((SECONDS + seconds)) node status told
  while ((SECONDS < until)); do
    told=0
    for ((node = 1; node <= nodes; ++node)); do
      status=
      [[ ! -e $work/$node.status ]] || status=$(tr --delete --complement '0-9' <"$work/$node.status")
      [[ -n $status ]] || continue
      ((told += 1))
      ((status == 0)) || return "$status"
    done
    ((told < nodes)) || return 0
    for ((node = 1; node <= nodes; ++node)); do
      kill -0 "${guests[node - 1]}" 2>/dev/null || {
        sleep 1
        [[ -s $work/$node.status ]] || { echo "verbs_guest: guest $node ended without a word" >&2; return 125; }
      }
    done
    sleep 0.2
  done
  echo "verbs_guest: not done after $seconds s" >&2
  return 124
}

nodes=1 seconds=300 added=()
while (($#)); do
  case "$1" in
    --nodes) nodes=${2:-}; shift 2 ;;
    --seconds) seconds=${2:-}; shift 2 ;;
    --add) added+=("${2:-}"); shift 2 ;;
    -*) usage "unknown option $1" ;;
    *) break ;;
  esac
done
(($#)) || usage "which program?"
[[ $nodes == [123] ]] || usage "--nodes is 1, 2 or 3"
need_host
mkdir -p "${PENSTOCK_GUEST_CACHE:-build/guest}"
cache=$(cd "${PENSTOCK_GUEST_CACHE:-build/guest}" && pwd)
prepare
work=$(mktemp --directory)
guests=()
trap end_guests EXIT
add_program "$@"
for ((node = 1; node <= nodes; ++node)); do
  start_guest "$node"
  # The one that listens first.
  ((nodes == 1)) || while ((node == 1)) && [[ ! -S $work/wire$nodes ]]; do sleep 0.1; done
done
rc=0
wait_for_guests || rc=$?
# What they printed last is on its way.
sleep 0.3
exit "$rc"
