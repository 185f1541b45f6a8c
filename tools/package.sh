#!/usr/bin/env bash
# Makes the Debian packages of a build: tools/package.sh [--quick] BUILD. They are left in build/package.
# --quick: without debug symbols, and packed lightly: for tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

quick=
if [[ ${1:-} == --quick ]]; then
  quick=yes
  shift
fi
readonly build=${1:?which build directory?} out=build/package

# The project's version; between releases it comes before the next one, and says when and of what.
version() {
  local project commit
  project=$(sed -n 's/^project(penstock VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  commit=$(git rev-parse --short HEAD 2>/dev/null) || {
    echo "$project"
    return
  }
  if [[ $(git describe --exact-match --tags HEAD 2>/dev/null) == "v$project" ]]; then
    printf '%s' "$project"
  else
    printf '%s~git%s.%s' "$project" \
      "$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d.%H%M%S)" "$commit"
  fi
  git diff --quiet HEAD || printf '+local'
}

# What is packed lies apart, so that a clone stays as it is.
stage() {
  local version=$1
  rm -rf "$out"
  mkdir -p "$out/source"
  cp -a debian "$out/source/"
  {
    printf 'penstock (%s) UNRELEASED; urgency=medium\n\n  * Built from the repository.\n\n -- %s  %s\n\n' \
      "$version" "$(sed -n 's/^Maintainer: //p' debian/control)" \
      "$(git log -1 --format=%cD 2>/dev/null || date -R)"
    cat debian/changelog
  } >"$out/source/debian/changelog"
}

pack() {
  local log=$out/log
  export PENSTOCK_BUILD=$PWD/$build PENSTOCK_DEBS=$PWD/$out
  export DEB_BUILD_OPTIONS=${quick:+noautodbgsym}
  [[ -z $quick ]] || export PENSTOCK_DEB_PACKING='-Zgzip -z1'
  if ! (cd "$out/source" && debian/rules binary) >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "package: failed; $log has all of it" >&2
    exit 1
  fi
  # A function that is not in the list gets this version; one that went is a failure.
  sed -n 's/^+ \(penstock_\w*\)@PENSTOCK_0.*/package: \1 is new: add it to debian\/libpenstock0.symbols/p' "$log" >&2
  rm -rf "$out/source"
}

number=$(version)
stage "$number"
pack
echo "made:"
(cd "$out" && du -h --apparent-size ./*.deb | sed 's|\./|build/package/|; s/^/  /')
cat <<TEXT
install it, with what it needs:
  apt-get install ./build/package/{penstock,libpenstock0}_${number}_*.deb
TEXT
