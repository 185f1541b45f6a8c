#!/usr/bin/env bash
# completion.sh SHARE PROGRAM: presses tab in bash, and in zsh where it is installed. SHARE has what
# packaging/generate.py made.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
# shellcheck source=tests/package/checks.sh
source "$here/checks.sh"

share=$(cd "$1" && pwd) || exit 1
program=$(cd "$(dirname "$2")" && pwd)/$(basename "$2") || exit 1
scratch=$(mktemp -d) || exit 1
store=$scratch/store
mkdir "$scratch/here" "$scratch/here/place"
trap '"$program" down "$store" >/dev/null 2>&1; rm -rf "$scratch"' EXIT
touch "$scratch/here/plain-file"
cd "$scratch/here" || exit 1

# tab WORD...: what bash offers for the last word, on one line.
tab() {
  (
    # shellcheck source=/dev/null
    source "$share/bash-completion/completions/penstock"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _penstock
    printf '%s\n' "${COMPREPLY[@]}" | sort -u | tr '\n' ' ' | sed 's/ $//'
  )
}

check "bash reads it without a word" nothing \
  "$(bash -c "set -u; source '$share/bash-completion/completions/penstock'" 2>&1)"
check "commands" has " $(tab penstock '') " " up " " down " " import " " doctor " " help "
check "a command that is begun" is "$(tab penstock stat)" status
check "one of two that are begun alike" is "$(tab penstock sta)" "standby status"
check "options of the whole" has "$(tab penstock --)" --version --help
check "options of a command" is "$(tab penstock up --mo)" "--mount --mount-options"
check "words after one with a value" is "$(tab penstock bench --size 1G --qu)" --quick
check "choices" is "$(tab penstock up --log-format '')" "json text"
check "choices after =" is "$(tab penstock up --log-format = j)" json
check "choices of a place, repeatedly" is "$(tab penstock bench ring cac)" cache
check "what stands below a command" is "$(tab penstock check '')" "gpu net symm"
check "what stands below another" is "$(tab penstock quota '')" "check delete get list set"
check "what stands below a third" is "$(tab penstock trash '')" "empty get list restore set"
check "its options" has "$(tab penstock doctor gpu --)" --dir
check "directories" is "$(tab penstock up pl)" place
check "directories, for an option" is "$(tab penstock up DIR --mount pl)" place
check "files" is "$(tab penstock import pl)" "place plain-file"
check "nothing after the last place" is "$(tab penstock down DIR '')" ""
check "no value that nobody can know" is "$(tab penstock up --shards '')" ""
check "mount options" is "$(tab penstock mount DIR place -o noat)" noatime
check "mount options after others" is "$(tab penstock mount DIR place -o ro,noat)" ro,noatime
check "options of a launcher" is "$(tab penstock run --ke)" --keep-going
check "its hosts" is "$(tab penstock run --host)" "--host --hostfile --hosts"
check "nothing that is for machines" is "$(tab penstock run-)" ""
check "commands to be told of" is "$(tab penstock help ver)" "verify version"
if "$program" up "$store" --background >/dev/null 2>"$scratch/why"; then
  check "stores whose nodes run" is "$(tab penstock down "$scratch/st")" "$store"
  check "and no others" is "$(tab penstock status "$scratch/h")" "$scratch/here"
else
  skip "stores whose nodes run" "no node starts here: $(head -c 200 "$scratch/why")"
fi

# zsh_tab TEXT WANTED: whether zsh completes TEXT so that WANTED is seen.
zsh_tab() { zsh -f "$here/press_tab.zsh" "$share/zsh" "$1" "$2"; }

if command -v zsh >/dev/null; then
  check "zsh reads it" zsh -n "$share/zsh/_penstock"
  check "zsh: a command" zsh_tab 'penstock stat' 'penstock status '
  check "zsh: an option" zsh_tab 'penstock up --cach' 'penstock up --cache '
  check "zsh: its description" zsh_tab 'penstock scrub --' 'For machines'
  check "zsh: a choice" zsh_tab 'penstock up --log-format j' 'json '
  check "zsh: a directory" zsh_tab 'penstock down pla' 'place/'
  check "zsh: below a command" zsh_tab 'penstock check g' 'check gpu '
  check "zsh: mount options after others" zsh_tab 'penstock mount DIR place -o ro,noat' 'ro,noatime'
  check "zsh: a command to be told of" zsh_tab 'penstock help scr' 'help scrub '
else
  skip "zsh" "it is not installed"
fi

printf 'completion: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
