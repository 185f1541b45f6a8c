"""The command line of `penstock`, as `penstock help --json` says it."""

import json
import re
import subprocess

# What a value is called where the command line has only a type, and what may be completed there.
# By the option's long name, or its place.
VALUES = {
    "--mount": ("MOUNTPOINT", "directory"),
    "--mount-options": ("OPTIONS", "mount-options"),
    "--options": ("OPTIONS", "mount-options"),
    "--store": ("DIR", "store"),
    "--dir": ("DIR", "directory"),
    "--metrics": ("ADDRESS", "nothing"),
    "--output": ("FILE", "file"),
    "--passthrough": ("FILE", "file"),
    "--json": ("FILE", "file"),  # of bench; elsewhere it is a flag
    "--user": ("UID", "user"),
    "--session": ("NUMBER", "nothing"),
    "--seconds": ("SECONDS", "nothing"),
    "DIR": ("DIR", "store"),
    "MOUNTPOINT": ("MOUNTPOINT", "directory"),
    "SRC": ("SRC", "file"),
    "DST": ("DST", "file"),
    "PATH": ("PATH", "file"),
    "FILE": ("FILE", "file"),
    "FROM": ("FROM", "file"),
    "TO": ("TO", "file"),
    "COMMAND": ("COMMAND", "command"),
}
# Where a place means something else than its name alone says.
PLACES = {("up", "DIR"): "directory", ("unmount", "MOUNTPOINT"): "mount"}


class Option:
    def __init__(self, command, facts):
        self.names = facts["names"]
        self.place = facts["place"]
        self.choices = facts["choices"]
        self.required = facts["required"]
        self.repeated = facts["repeated"]
        self.description = facts["description"]
        self.takes_value = bool(facts["value"])
        self._key = self.place or self.names[-1]
        known = VALUES.get(self._key)
        self.kind = "nothing" if known is None else known[1]
        self.kind = PLACES.get((command, self.place), self.kind)
        if self.choices:
            self.kind = "choices"
        self.value = self._value_name(facts["value"], known)
        bounds = re.search(r"in \[(\S+) - (\S+)\]", facts["value"])
        self.bounds = f"{_plain(bounds[1])} to {_plain(bounds[2])}" if bounds else ""

    def _value_name(self, value, known):
        if not self.takes_value:
            return ""
        if known is not None:
            return known[0]
        if self.choices and not self.place:
            free = re.findall(r"\(([A-Z]+)\) OR", value)
            return "|".join([*free, *self.choices])
        last = value.split(":")[-1]
        if self.place:
            return self.place
        if re.fullmatch(r"[A-Z]+", last) and last not in ("TEXT", "INT", "UINT", "FLOAT"):
            return last
        return "NUMBER" if re.match(r"INT|UINT|FLOAT", value) else "TEXT"


def _plain(number):
    return re.sub(r"\.0+$", "", number)


class Command:
    """`calls` are all the words by which it is called: 'check gpu', 'doctor gpu'."""

    def __init__(self, facts, footer, parents=(), parents_called=("",)):
        self.name = " ".join((*parents, facts["name"]))
        self.aliases = facts["aliases"]
        own = (facts["name"], *facts["aliases"])
        self.calls = [f"{parent} {name}".strip() for parent in parents_called for name in own]
        self.group = facts["group"]
        self.description = facts["description"]
        # What is said below everything is said once.
        self.footer = "" if facts["footer"] == footer else facts["footer"].strip()
        options = [Option(self.name, each) for each in facts["options"]]
        self.options = [each for each in options if each.names]
        self.places = [each for each in options if not each.names]
        parents = (*parents, facts["name"])
        self.commands = [Command(each, facts["footer"], parents, self.calls) for each in facts["commands"]]

    def all(self):
        """This command and those below it."""
        yield self
        for each in self.commands:
            yield from each.all()


class Program:
    def __init__(self, facts):
        self.description = facts["description"]
        self.footer = facts["footer"].strip()
        self.options = [Option("", each) for each in facts["options"]]
        self.commands = [Command(each, facts["footer"]) for each in facts["commands"]]

    def all_commands(self):
        for each in self.commands:
            yield from each.all()

    @staticmethod
    def of(path):
        run = subprocess.run([path, "help", "--json"], check=True, capture_output=True, text=True)
        return Program(json.loads(run.stdout))
