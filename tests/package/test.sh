#!/usr/bin/env bash
# test.sh [--quick] BUILD: of the packages in build/package that tools/package.sh made of BUILD. Their contents, completion,
# and an installation in a root that is thrown away: an overlay in memory over this machine's, so that nothing
# of this machine changes. --quick: a chroot instead of a boot, and no lintian.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

quick=
if [[ ${1:-} == --quick ]]; then
  quick=yes
  shift
fi
readonly build=${1:?of which build?} debs=$PWD/build/package here=$PWD/tests/package
failed=()

# part NAME COMMAND...
part() {
  local name=$1 started=$SECONDS
  shift
  printf '\n-- %s\n' "$name"
  if "$@"; then
    printf -- '-- %s: ok (%d s)\n' "$name" $((SECONDS - started))
  else
    failed+=("$name")
    printf -- '-- %s: FAILED (%d s)\n' "$name" $((SECONDS - started))
  fi
}

run_lintian() {
  lintian --fail-on error --tag-display-limit 0 "$debs"/*.deb
}

# ---- The root

# What the new root sees of this machine, besides the overlay: packages, tests, and a directory on a disk.
readonly packages_there=/mnt/penstock-packages test_there=/mnt/penstock-test scratch_there=/mnt/penstock-scratch

# in_root WORDS...: runs this script again where mounts are its own, and everything ends with it.
in_root() {
  scratch=$(mktemp -d "$PWD/build/package-scratch.XXXXXX") || return 1
  local rc=0
  unshare --mount --pid --fork --kill-child --propagation private "$here/test.sh" --inside "$1" "$scratch" || rc=$?
  rm -rf "$scratch"
  return "$rc"
}

# make_root DIRECTORY: an overlay over /, with places for what is bound into it.
make_root() {
  local memory=$1
  mount -t tmpfs -o size=4g penstock-test "$memory" && mkdir "$memory"/{upper,work,root} &&
    mount -t overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" penstock-test "$memory/root" &&
    mkdir -p "$memory/root"{"$packages_there","$test_there","$scratch_there"} &&
    # Containers keep packages from their services by the first; looking through all man pages takes most of the time.
    rm -f "$memory/root/usr/sbin/policy-rc.d" "$memory/root/var/lib/man-db/auto-update"
}

# In a namespace of mounts and processes of its own.
inside() {
  local how=$1 scratch=$2 memory=$2/memory
  mkdir "$scratch/memory" "$scratch/disk" || return 1
  if ! make_root "$memory"; then
    echo "skip  installing: no root can be made here, as an overlay in memory over / is refused"
    return 0
  fi
  if [[ $how == boot ]]; then boot "$memory/root" "$scratch"; else enter "$memory/root" "$scratch"; fi
}

enter() {
  local root=$1 scratch=$2
  mount --bind "$debs" "$root$packages_there" && mount --bind "$here" "$root$test_there" &&
    mount --bind "$scratch/disk" "$root$scratch_there" &&
    mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
    mount -t tmpfs tmpfs "$root/run" && mount -t tmpfs tmpfs "$root/tmp" || return 1
  chroot "$root" "$test_there/inside.sh" "$packages_there" "$scratch_there"
}

boot() {
  local root=$1 scratch=$2 log=$2/disk/log rc=0
  local devices=()
  [[ ! -e /dev/fuse ]] || devices=(--bind=/dev/fuse)
  cat >"$root/etc/systemd/system/penstock-test.service" <<UNIT
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
StandardOutput=append:$scratch_there/log
StandardError=inherit
ExecStart=$test_there/inside.sh $packages_there $scratch_there
UNIT
  # A machine of its own, that no other's journal is mixed with.
  rm -f "$root/etc/machine-id"
  timeout 600 systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit --console=pipe --machine=penstock-test \
    --bind-ro="$debs:$packages_there" --bind-ro="$here:$test_there" --bind="$scratch/disk:$scratch_there" "${devices[@]}" \
    systemd.unit=penstock-test.service >"$scratch/console" 2>&1 </dev/null || rc=$?
  if [[ -s $log ]]; then
    cat "$log"
    return "$rc"
  fi
  echo "nothing could be booted (systemd-nspawn ended with $rc):"
  tail -n 5 "$scratch/console" | sed 's/^/  /'
  return 99
}

install_test() {
  if ((EUID != 0)); then
    echo "skip  installing: only root may make a root to install in"
    return 0
  fi
  if ! unshare --mount true 2>/dev/null; then
    echo "skip  installing: no mounts may be made here"
    return 0
  fi
  local rc=99
  if [[ -n $quick ]]; then
    echo "not booted: --quick"
  elif ! command -v systemd-nspawn >/dev/null; then
    echo "not booted: systemd-nspawn is not installed (package systemd-container)"
  else
    rc=0
    in_root boot || rc=$?
  fi
  if ((rc == 99)); then
    rc=0
    in_root chroot || rc=$?
  fi
  return "$rc"
}

if [[ $build == --inside ]]; then
  inside "$2" "$3"
  exit
fi
part "contents" "$here/contents.sh" "$debs"
part "completion" "$here/completion.sh" "$build/share" "$build/bin/penstock"
if [[ -n $quick ]] || ! command -v lintian >/dev/null; then
  echo "no lintian"
else
  part "lintian" run_lintian
fi
part "installation" install_test

echo
if ((${#failed[@]} > 0)); then
  echo "package test failed: ${failed[*]}"
  exit 1
fi
echo "package test passed"
