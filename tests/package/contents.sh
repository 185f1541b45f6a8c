#!/usr/bin/env bash
# contents.sh DIRECTORY: what the packages there contain, and whether it is what they say. Needs no root.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
# shellcheck source=tests/package/checks.sh
source "$here/checks.sh"

readonly debs=$1
root=$(mktemp -d) || exit 1
trap 'rm -rf "$root"' EXIT
for package in penstock libpenstock0 libpenstock-dev penstock-compat; do
  dpkg-deb -x "$debs/$package"_*.deb "$root" || exit 1
done
program=$root/usr/bin/penstock
libraries=$root/usr/lib/$(gcc -print-multiarch)

# Directories that all packages share hold names of ours alone.
foreign_names() {
  find "$root" \( -type f -o -type l \) -printf '%P\n' |
    grep -vE '^usr/(include|lib/[^/]*|lib/[^/]*/pkgconfig|s?bin|share/(man/man[0-9]|bash-completion/completions|zsh/vendor-completions))/(_|lib|mount\.|mount\.fuse\.)?penstock[^/]*$' |
    grep -vE '^usr/(include|lib/[^/]*)/penstock(_device)?/|^usr/share/doc/(lib)?penstock[^/]*/|^usr/share/lintian/|^usr/lib/systemd/system/penstock@\.service$'
}

soname_of() { objdump -p "$1" | sed -n 's/^ *SONAME *//p'; }

# Symbols that are defined and not of our version, or not ours at all.
strange_symbols() {
  readelf --dyn-syms --wide "$libraries/libpenstock.so.0" |
    awk '$7 ~ /^[0-9]+$/ && $5 != "LOCAL" {print $8}' | grep -vxE 'penstock_\w+@@PENSTOCK_0'
}

# Functions of the headers that the library does not have.
functions_that_miss() {
  comm -13 \
    <(readelf --dyn-syms --wide "$libraries/libpenstock.so.0" | grep -oE 'penstock_\w+@@' | tr -d @ | sort -u) \
    <(cat "$root"/usr/include/penstock.h "$root"/usr/include/penstock_{model,device_ring}.h | tr '\n' ' ' |
      grep -oP 'PENSTOCK_API\b[^;]*?\bpenstock_\w+(?=\()' | grep -oP 'penstock_\w+$' | sort -u)
}

commands() { "$program" help | sed -nE 's/^ {2,4}([a-z]+(, ?[a-z]+)*)( .*)?$/\1/p' | tr -s ', ' '\n'; }

# Commands and options that `penstock help` has and the man page has not.
missing_in_manual() {
  local text command option
  text=$(man -l "$root/usr/share/man/man1/penstock.1.gz" 2>/dev/null | col -b)
  for command in $(commands); do
    grep -q "^ *\(.*, \)\?penstock $command\b" <<<"$text" || echo "penstock $command"
    for option in $("$program" help "$command" | grep -oE '^ +-[-a-zA-Z,]+' | tr -s ', ' '\n' | grep '^-'); do
      [[ $option == -h || $option == --help ]] || grep -q -e "$option\b" <<<"$text" || echo "$command $option"
    done
  done
}

# What groff and man have to say about the pages.
faults_of_manuals() {
  local page
  for page in "$root"/usr/share/man/man[18]/*.gz "$root"/usr/share/man/man3/penstock{,_model,_device_ring}.3.gz; do
    LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null |
      sed "s|^|$(basename "$page"): |"
  done
}

field() { dpkg-deb -f "$debs/$1"_*.deb "$2"; }

check "shared directories have names of ours alone" nothing "$(foreign_names)"
check "the library's SONAME" is "$(soname_of "$libraries/libpenstock.so.0")" libpenstock.so.0
check "its link for programs to be built" is "$(readlink "$libraries/libpenstock.so")" libpenstock.so.0
check "it has functions of ours alone, with their version" nothing "$(strange_symbols)"
check "every function of the headers is in it" nothing "$(functions_that_miss)"
check "no library or program looks in a directory of the build" nothing \
  "$(find "$root/usr" -type f -exec objdump -p {} + 2>/dev/null | grep -E 'RPATH|RUNPATH' |
    grep -vE 'RUNPATH +[$]ORIGIN/../lib$')"
check "the packages' needs are found" has "$(field penstock Depends)" libc6 librocksdb libfuse3
check "the library's too" has "$(field libpenstock0 Depends)" libc6 librocksdb
check "programs are built with the library of the same version" is "$(field libpenstock-dev Depends)" \
  "libpenstock0 (= $(field libpenstock0 Version))"
check "the program says the version that the package begins with" is \
  "$("$program" --version)" "penstock $(field penstock Version | sed 's/[~+].*//')"
check "every command and option is in the man page" nothing "$(missing_in_manual)"
check "the man page has commands at all" has "$(commands | tr '\n' ' ')" up down import doctor
check "man pages are as they should be" nothing "$(faults_of_manuals)"
check "a function's man page is the header's" is \
  "$(readlink "$root/usr/share/man/man3/penstock_connect.3.gz")" penstock.3.gz
check "what is built needs what is installed for it" nothing "$(diff \
  <(sed -n 's/^build *//p' "$here/../../tools/packages.txt" | sort) \
  <(sed -n '/^Build-Depends/,/^[A-Z]/s/^ \([a-z0-9+.-]*\),\?$/\1/p' "$here/../../debian/control" | sort))"

printf 'contents: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
