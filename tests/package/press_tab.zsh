# press_tab.zsh FUNCTIONS TEXT WANTED: types TEXT and tab into a zsh, and waits until WANTED is seen.
zmodload zsh/zpty || exit 1
zmodload zsh/datetime
# A terminal wide enough that nothing is broken into lines.
zpty -b shell 'stty cols 400 rows 50; TERM=dumb PS1= zsh -f -i'
zpty -w shell "fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; print re''ady"
seen=
wait_for() {
  local until=$((EPOCHREALTIME + $2)) more
  while ((EPOCHREALTIME < until)); do
    if zpty -r -t shell more; then
      seen+=$more
      [[ ${seen//$'\r'/} == *$1* ]] && return 0
    else
      sleep 0.02
    fi
  done
  return 1
}
wait_for ready 30 || { print -r -- "zsh does not start: $seen"; exit 1 }
seen=
zpty -w -n shell "$2"$'\t'
wait_for $3 10 && { zpty -d shell; exit 0 }
print -r -- "seen: ${(V)seen}"
zpty -d shell
exit 1
