"""Completion for bash and zsh, from the command line's own description."""

import re

MOUNT_OPTIONS_FLAGS = re.compile(r"`([a-z_=0-9]+)`")

# ---- bash

_BASH = r"""# bash completion for penstock(1): made by packaging/completion.py                 -*- shell-script -*-

# Directories whose nodes run: their sockets have names.
_penstock_running() {
  local line
  while read -r line; do
    line=${line##* }
    [[ $line != /*/agent.sock ]] || printf '%s\n' "${line%/agent.sock}"
  done </proc/net/unix 2>/dev/null
}

_penstock_mounts() {
  local source place kind rest
  while read -r source place kind rest; do
    [[ $kind != fuse.penstock && $kind != fuse.hf3fs ]] || printf '%b\n' "$place"
  done </proc/self/mounts 2>/dev/null
}

# _penstock_offer KIND CURRENT
_penstock_offer() {
  local cur=$2 IFS=$'\n' list=
  case $1 in
    directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    store)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <({
        compgen -W "$(_penstock_running)" -- "$cur"
        compgen -d -- "$cur"
      } | sort -u)
      ;;
    mount) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -W "$(_penstock_mounts)" -- "$cur") ;;
    user) mapfile -t COMPREPLY < <(compgen -W "$(getent passwd | cut -d: -f3)" -- "$cur") ;;
    mount-options)
      # Word by word of a list with commas.
      compopt -o nospace 2>/dev/null
      [[ $cur != *,* ]] || list=${cur%,*},
      mapfile -t COMPREPLY < <(compgen -P "$list" -W $'@MOUNT_OPTIONS@' -- "${cur##*,}")
      ;;
    command) mapfile -t COMPREPLY < <(compgen -W $'@COMMANDS@' -- "$cur") ;;
    words:*) mapfile -t COMPREPLY < <(compgen -W "$(tr ' ' '\n' <<<"${1#words:}")" -- "$cur") ;;
  esac
}

_penstock() {
  local cur=${COMP_WORDS[COMP_CWORD]} command= before= word i places=0
  local options= valued= kinds=() last=
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    before=
    if [[ $word == = ]]; then
      # --option=value
      ((i + 1 == COMP_CWORD)) && before=${COMP_WORDS[i - 1]}
      ((++i))
    elif [[ $word == -* ]]; then
      if [[ " $valued " == *" $word "* && ${COMP_WORDS[i + 1]} != = ]]; then
        ((i + 1 == COMP_CWORD)) && before=$word
        ((++i))
      fi
    elif [[ -z $command ]] || [[ " @NESTED@ " == *" $command/$word "* ]]; then
      command=${command:+$command/}$word
      places=0
      _penstock_command "$command"
    else
      ((++places))
    fi
  done
  if [[ $cur == = && -n ${COMP_WORDS[COMP_CWORD - 1]} ]]; then
    before=${COMP_WORDS[COMP_CWORD - 1]}
    cur=
  fi
  if [[ -n $before ]]; then
    _penstock_offer "$(_penstock_value "$command" "$before")" "$cur"
  elif [[ -z $command ]]; then
    if [[ $cur == -* ]]; then
      _penstock_offer 'words:@OPTIONS@' "$cur"
    else
      _penstock_offer command "$cur"
    fi
  elif [[ $cur == -* ]]; then
    _penstock_offer "words:$options" "$cur"
  else
    _penstock_offer "${kinds[places]:-$last}" "$cur"
  fi
}

# Sets what _penstock needs of a command: its options, those with values, the kinds of its places,
# and the kind of all later ones.
_penstock_command() {
  options= valued= kinds=() last=
  case $1 in
@CASES@
  esac
}

# The kind of an option's value.
_penstock_value() {
  case $1:$2 in
@VALUES@
  esac
}

complete -F _penstock penstock
"""


def _bash_kind(option, extra=()):
    if option.kind == "choices" or extra:
        return "words:" + " ".join([*option.choices, *extra])
    return option.kind


def _bash_cases(program):
    cases = []
    values = []
    for command in program.all_commands():
        key = "|".join(call.replace(" ", "/") for call in command.calls)
        names = [name for option in command.options for name in option.names]
        valued = [name for option in command.options if option.takes_value for name in option.names]
        kinds = [_bash_kind(place) for place in command.places]
        below = [each.name.split()[-1] for each in command.commands]
        if below:
            kinds = ["words:" + " ".join(below)]
        last = kinds[-1] if command.places and command.places[-1].repeated else ""
        case = [f"    {key})", f"      options='{' '.join(names)}'"]
        if valued:
            case.append(f"      valued='{' '.join(valued)}'")
        if kinds:
            case.append("      kinds=(" + " ".join(f"'{kind}'" for kind in kinds) + ")")
        if last:
            case.append(f"      last='{last}'")
        cases += [*case, "      ;;"]
        for option in command.options:
            kind = _bash_kind(option)
            if option.takes_value and kind != "nothing":
                patterns = "|".join(f"{each}:{name}" for each in key.split("|") for name in option.names)
                values.append(f"    {patterns}) echo '{kind}' ;;")
    return "\n".join(cases), "\n".join(values)


def _words(program):
    return [name for command in program.commands for name in (command.name, *command.aliases)]


def mount_options(mounting):
    """The options that docs/mounting.md has in its table, but for mount(8)'s own."""
    table = mounting[mounting.index("## Options") :]
    words = []
    for row in re.findall(r"^\| *(`.*?) *\|", table, re.MULTILINE):
        if "x-*" not in row:
            words += MOUNT_OPTIONS_FLAGS.findall(row)
    return words


def bash(program, mounting):
    cases, values = _bash_cases(program)
    nested = [
        call.replace(" ", "/")
        for command in program.commands
        for each in command.commands
        for call in each.calls
    ]
    text = _BASH.replace("@CASES@", cases).replace("@VALUES@", values)
    text = text.replace("@NESTED@", " ".join(nested))
    text = text.replace("@OPTIONS@", " ".join(name for option in program.options for name in option.names))
    text = text.replace("@COMMANDS@", r"\n".join(_words(program)))
    return text.replace("@MOUNT_OPTIONS@", r"\n".join(mount_options(mounting)))


# ---- zsh

_ZSH = r"""#compdef penstock
# zsh completion for penstock(1): made by packaging/completion.py

_penstock_stores() {
  local -a running
  running=(${${(M)${(f)"$(</proc/net/unix)"}:#*/agent.sock}##* })
  running=(${running%/agent.sock})
  _alternative 'running:store of a running node:compadd -a running' 'directories:directory:_files -/'
}

_penstock_mounts() {
  local -a places
  places=(${${(f)"$(awk '$3 ~ /^fuse\.(penstock|hf3fs)$/ {print $2}' /proc/self/mounts)"}})
  compadd -a places
}

_penstock_mount_options() {
  local -a words
  words=(@MOUNT_OPTIONS@)
  _sequence compadd -a words
}

_penstock_commands() {
  local -a commands
  commands=(
@COMMANDS@
  )
  _describe -t commands 'command of penstock' commands
}

_penstock() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  _arguments -C \
@OPTIONS@
    '1: :_penstock_commands' \
    '*:: :->rest' && return
  [[ $state == rest ]] || return 1
  case $words[1] in
@CASES@
  esac
}

_penstock "$@"
"""


def _zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def _zsh_action(option, extra=()):
    words = [*option.choices, *extra]
    if words:
        return "(" + " ".join(words) + ")"
    return {
        "directory": "_files -/",
        "file": "_files",
        "store": "_penstock_stores",
        "mount": "_penstock_mounts",
        "user": "_users",
        "mount-options": "_penstock_mount_options",
        "command": "_penstock_commands",
    }.get(option.kind, " ")


def _zsh_option(option):
    what = f"[{_zsh_text(option.description)}]"
    value = f":{_zsh_text(option.value)}:{_zsh_action(option)}" if option.takes_value else ""
    names = option.names
    if len(names) == 1:
        return f"'{names[0]}{what}{value}'"
    return f"'({' '.join(names)})'{{{','.join(names)}}}'{what}{value}'"


def _zsh_places(command):
    below = [each.name.split()[-1] for each in command.commands]
    if below:
        return [f"'::what:({' '.join(below)})'"]
    specs = []
    for place in command.places:
        head = "*:" if place.repeated else ":" if place.required else "::"
        specs.append(f"'{head}{_zsh_text(place.value)}:{_zsh_action(place)}'")
    return specs


def _zsh_case(command):
    names = "|".join((command.name, *command.aliases))
    options = list(command.options)
    known = {name for option in options for name in option.names}
    for each in command.commands:
        options += [option for option in each.options if not known & set(option.names)]
    specs = [*(_zsh_option(option) for option in options), *_zsh_places(command)]
    if not specs:
        return [f"    {names}) ;;"]
    return [f"    {names})", "      _arguments -s \\", " \\\n".join("        " + spec for spec in specs), "      ;;"]


def zsh(program, mounting):
    commands = "\n".join(
        f"    '{name}:{_zsh_text(command.description)}'"
        for command in program.commands
        for name in (command.name, *command.aliases)
    )
    options = "\n".join(f"    {_zsh_option(option)} \\" for option in program.options)
    cases = "\n".join(line for command in program.commands for line in _zsh_case(command))
    text = _ZSH.replace("@COMMANDS@", commands).replace("@OPTIONS@", options).replace("@CASES@", cases)
    return text.replace("@MOUNT_OPTIONS@", " ".join(mount_options(mounting)))
