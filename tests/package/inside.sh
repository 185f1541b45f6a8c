#!/usr/bin/env bash
# inside.sh PACKAGES SCRATCH: what an administrator does with the packages, in a root that is thrown away: by a
# service manager where one runs, else by the unit's own lines. SCRATCH lies on a disk. Called by test.sh.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
# shellcheck source=tests/package/checks.sh
source "$here/checks.sh"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
# For the packages of this test nothing has to be found.
export PAGER=cat SYSTEMD_PAGER=''

readonly packages=$1 scratch=$2
readonly store="$scratch/my store" place=/mnt/penstock-data unit=penstock@data
readonly conf=/etc/penstock/data.conf
mkdir -p "$scratch/source"
cp -a "$here/." /usr/bin/bash "$scratch/source"
readonly node_log=/tmp/penstock-node.log
mounts=
[[ -r /dev/fuse && -w /dev/fuse ]] && mounts=yes
booted=
[[ -d /run/systemd/system ]] && booted=yes

install_packages() {
  local log
  log=$(apt-get -q -y --no-install-recommends --allow-downgrades --reinstall install "$packages"/*penstock*_*.deb 2>&1) || {
    printf '%s\n' "$log"
    return 1
  }
}

# All names in directories where packages and administrators put them.
names() {
  find /usr /etc /opt /var/lib /srv -xdev -not -path '/var/lib/dpkg/*' -not -path '/var/lib/systemd/*' -not -path '/var/lib/apt/*' \
    -not -path "$scratch/*" -not -path '/usr/lib/python3*/__pycache__*' 2>/dev/null | sort
}

sums() { (cd "$store" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

# ---- The unit, with and without a service manager

# unit_line NAME: its value in the unit as it is installed, for a shell.
unit_line() { sed -n "s/^$1=//p" /usr/lib/systemd/system/penstock@.service | sed 's/%i/data/g; s/[$]{STORE}/"&"/'; }

# run_unit: what the service manager does with the unit, until the node says that it is ready.
run_unit() {
  (
    set -a
    # shellcheck source=/dev/null
    source "$conf"
    set +a
    eval "$(unit_line ExecStartPre)" || exit 1
    export NOTIFY_SOCKET=/run/penstock-notify
    rm -f "$NOTIFY_SOCKET"
    python3 - "$NOTIFY_SOCKET" <<'PYTHON' &
import socket, sys
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.bind(sys.argv[1])
told.settimeout(60)
sys.exit(b"READY=1" not in told.recv(4096))
PYTHON
    listener=$!
    for _ in {1..100}; do [[ -S $NOTIFY_SOCKET ]] && break; sleep 0.05; done
    eval "setsid $(unit_line ExecStart) >'$node_log' 2>&1 &"
    wait "$listener" || { cat "$node_log"; exit 1; }
  )
}

start_node() {
  if [[ -n $booted ]]; then
    systemctl start "$unit" || { journalctl -q -u "$unit" --no-pager | tail -n 20; return 1; }
  else
    run_unit
  fi
}

stop_node() {
  if [[ -n $booted ]]; then systemctl stop "$unit"; else penstock down "$store"; fi
}

node_pid() { penstock status "$store" --json | sed -n 's/^ *"pid": \([0-9]*\),\?$/\1/p' | head -n 1; }

write_conf() {
  {
    echo "STORE=\"$store\""
    [[ -z $mounts ]] || echo "OPTIONS=\"--mount $place --allow-other\""
  } >"$conf"
}

refuses_what_is_no_store() {
  local said
  printf 'STORE=/srv/nothing-here\n' >"$conf"
  if [[ -n $booted ]]; then
    ! systemctl start "$unit" || return 1
    said=$(journalctl -q -u "$unit" --no-pager)
    systemctl stop "$unit"
    systemctl reset-failed "$unit"
  else
    said=$(run_unit 2>&1) && return 1
  fi
  [[ ! -e /srv/nothing-here ]] || return 1
  has "$said" "/srv/nothing-here" "is not a store"
}

is_started_again_when_killed() {
  local pid=$1 now
  kill -KILL "$pid"
  for _ in {1..300}; do
    now=$(node_pid 2>/dev/null)
    [[ -z $now || $now == "$pid" ]] || break
    sleep 0.1
  done
  [[ -n $now && $now != "$pid" ]] || return 1
  [[ -z $mounts ]] || is "$(<$place/file)" "through the mount"
}

# ---- Programs

builds_and_runs() {
  local flags
  flags=$(pkg-config --cflags --libs "$1") || return 1
  # shellcheck disable=SC2086
  gcc -Wall -Wextra -Werror -o /tmp/program "$here/$2" $flags || return 1
  /tmp/program "${@:3}"
}

finds_what_is_named() {
  local path
  path=$(pkg-config --variable=libdir "$1")/$2
  [[ -e $path ]] || { echo "$path is not there"; return 1; }
  # With everything that it needs.
  ! ldd "$path" | grep 'not found'
}

# ---- The whole story

rm -rf /srv/nothing-here "$store"
# Earlier runs of the machine itself, and caches that others write.
before=$(names)
check "the packages are installed" install_packages
check "the unit is as it should be" nothing "$(systemd-analyze verify --man=no "penstock@data.service" 2>&1 | grep -i penstock)"
check "its man pages are there" nothing "$(for page in 'penstock@.service.8' mount.penstock.8; do
  [[ -e /usr/share/man/man8/$page.gz ]] || echo $page; done)"
check "nothing runs that nobody started" nothing "$(pgrep -x penstock)"
check "a new store, by hand" penstock up "$store" --background
check "and its end" penstock down "$store"
mkdir -p "$place"
check "a name that is no store is refused, and none made" refuses_what_is_no_store
write_conf
check "the unit starts, and is ready when the node is" start_node
check "the node answers" has "$(penstock status "$store" 2>&1)" "process"
if [[ -n $booted ]]; then
  check "it is told to the service manager" has "$(systemctl status --no-pager "$unit")" "active (running)" "Serving $store"
  check "memory may be locked" has "$(systemctl show -p LimitMEMLOCK "$unit")" infinity
fi
if [[ -n $mounts ]]; then
  check "the mount is seen by others" has "$(findmnt -n "$place")" fuse.penstock
  check "a file through the mount" sh -c "echo 'through the mount' >$place/file"
  check "a user's file through the mount" sh -c "mkdir -m 1777 $place/tmp && setpriv --reuid 65534 --clear-groups sh -c 'echo x >$place/tmp/x'"
else
  skip "the mount" "there is no /dev/fuse"
fi
check "a tree is copied in" penstock import --quiet "$scratch/source" "$store:/source"
check "and is equal" penstock verify --quiet "$scratch/source" "$store:/source"
check "a program is built against penstock.pc, and runs" builds_and_runs penstock program.c "$store"
if [[ -n $mounts ]]; then
  check "a program for 3FS is built against penstock-hf3fs.pc, and runs" builds_and_runs penstock-hf3fs program_3fs.c "$place"
fi
for each in hf3fs:libhf3fs_api_shared.so cufile:libcufile.so.0; do
  if pkg-config --exists "penstock-${each%%:*}"; then
    check "${each#*:} in its own directory" finds_what_is_named "penstock-${each%%:*}" "${each#*:}"
  else
    skip "${each#*:}" "this build has none (no CUDA)"
  fi
done
openshmem=/usr/lib/$(gcc -print-multiarch)/penstock/openshmem/bin
check "an OpenSHMEM program is built by oshcc" "$openshmem/oshcc" "$here/program_shmem.c" -o "$scratch/program_shmem"
check "and runs by oshrun" is "$("$openshmem/oshrun" -n 2 "$scratch/program_shmem" | sort | tr '\n' ' ')" "1 2 "
check "and against penstock-openshmem.pc, and runs alone" is "$(builds_and_runs penstock-openshmem program_shmem.c)" "1"
nvshmem=/usr/lib/$(gcc -print-multiarch)/penstock/nvshmem
if [[ -d $nvshmem ]]; then
  check "an NVSHMEM program is built by one line" gcc "$here/program_nvshmem.c" -L"$nvshmem/lib" -lnvshmem -o "$scratch/program_nvshmem"
  check "and against penstock-nvshmem.pc, and runs alone" is "$(builds_and_runs penstock-nvshmem program_nvshmem.c)" "0"
  check "and runs by nvshmrun" is "$("$nvshmem/bin/nvshmrun" -np 2 "$scratch/program_nvshmem" | sort | tr '\n' ' ')" "0 1 "
else
  skip "NVSHMEM" "this build has none (no CUDA)"
fi
python=$(pkg-config --variable=libdir penstock-hf3fs)/../python
if [[ -d $python ]]; then
  check "3FS's Python package in its own directory" env PYTHONPATH="$python" /usr/bin/python3 -B -c 'import hf3fs_fuse.io'
else
  skip "3FS's Python package" "this build has none (no pybind11)"
fi
check "the loader finds no library of another's name" nothing "$(ldconfig -p | grep -F penstock/)"
if [[ -n $booted ]]; then
  check "it is started again when it is killed, and takes its mount over" is_started_again_when_killed "$(node_pid)"
  check "enabling it" systemctl enable -q "$unit"
else
  skip "it is started again when it is killed" "no service manager runs here"
fi
pid=$(node_pid)
check "an upgrade" install_packages
check "leaves a running node alone" is "$(node_pid)" "$pid"
check "the unit stops" stop_node
check "and its mount is gone" nothing "$(findmnt -n "$place")"
if [[ -n $mounts ]]; then
  check "mount -t penstock" mount -t penstock "$store" "$place" -o noatime
  check "has the files" test -e "$place/file"
  check "mount -o remount" mount -o remount,ro "$place"
  check "umount" umount "$place"
  check "its node is ended" penstock down "$store"
fi
if [[ -n $booted ]]; then
  check "the unit starts once more" start_node
  check "removing stops it" apt-get -q -y remove penstock
  check "so that nobody serves the store" nothing "$(pgrep -x penstock)"
fi
stored=$(sums)
check "there is something stored" has "$stored" penstock.store targets/
check "all are removed" apt-get -q -y remove penstock libpenstock0 libpenstock-dev penstock-compat
check "the file that names the store stays" test -e "$conf"
check "and purged" dpkg --purge penstock libpenstock0 libpenstock-dev penstock-compat
check "the store's files are as they were" is "$(sums)" "$stored"
check "the administrator's file stays, and is his to remove" rm -r /etc/penstock
rmdir "$place"
check "nothing of the packages is left" is "$(names)" "$before"
check "installed again, the data are there" install_packages
mkdir -p "$place"
write_conf
check "and the unit serves it" start_node
check "every byte" penstock verify --quiet "$scratch/source" "$store:/source"
check "the end" stop_node

if [[ -n $booted ]]; then how="in a root that was booted"; else how="in a chroot"; fi
printf 'installed %s: %d passed, %d failed, %d skipped\n' "$how" "$passed" "$failed" "$skipped"
((failed == 0))
