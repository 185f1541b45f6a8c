#!/usr/bin/env python3
"""Keeps docs/numeric-limits.md equal to the constants of all limits.h.

Without arguments: a fault if the page is not what the headers say. With --write: writes it.
"""

import pathlib
import re
import sys

from cxx_source import read_layers

PAGE = "docs/numeric-limits.md"
HEADING = """# Numeric limits

Every bound of every library, as its `limits.h` has it, with the first sentence of the reason that stands there. Written by
`tools/list_limits.py --write`; `./dev check` fails when it is not up to date. What is missing or below its budget is in
[limits.md](limits.md).
"""
CONSTANT = re.compile(r"^inline constexpr (?P<type>[\w:<>]+) (?P<name>k\w+)\s*(?:=|(?={))\s*(?P<value>.*);$")
UNITS = {"nanoseconds": "ns", "microseconds": "µs", "milliseconds": "ms", "seconds": "s", "minutes": "min", "hours": "h"}


def statements(text):
    """The constants of a header, each with the comment before it, or that of the constant before it."""
    comment, lines, last_was_comment = [], [], False
    for line in text.splitlines():
        bare = line.strip()
        if lines or line.startswith("inline constexpr "):
            code, _, trailing = bare.partition("  // ")
            lines.append(code)
            if code.endswith(";"):
                yield " ".join(lines), " ".join(comment), trailing
                lines = []
            last_was_comment = False
        elif bare.startswith("//"):
            comment = (comment if last_was_comment else []) + [bare[2:].strip()]
            last_was_comment = True
        else:
            if not bare or not bare.startswith("static_assert"):
                comment = []
            last_was_comment = False


def value_of(kind, value):
    """A value as people write it: 16 MiB, 20 µs; else the expression."""
    value = value.strip("{}").replace("penstock::", "").replace("std::", "")
    unit = re.search(r"chrono::(\w+)>?$", kind)
    if unit and re.fullmatch(r"[\d']+", value):
        return f"{value} {UNITS[unit.group(1)]}"
    time = re.fullmatch(r"chrono::(\w+)\(([\d']+)\)", value)
    if time:
        return f"{time.group(2)} {UNITS[time.group(1)]}"
    size = re.fullmatch(r"([\d']+) \* k([KMGT]iB)", value) or re.fullmatch(r"()k([KMGT]iB)", value)
    if size:
        return f"{size.group(1) or 1} {size.group(2)}"
    if re.fullmatch(r"[\d'.]+[uUlL]*", value):
        return value.rstrip("uUlL")
    return f"`{value}`"


def first_sentence(text):
    return re.split(r"(?<=[.?])\s", text, maxsplit=1)[0].rstrip(".") if text else ""


def constants(text):
    """Rows (name, value, meaning) of one header."""
    before = None
    for statement, comment, trailing in statements(text):
        match = CONSTANT.match(statement)
        if match is None:
            continue
        meaning = trailing or first_sentence(comment)
        shown = "″" if meaning and meaning == before else meaning
        before = meaning
        yield match.group("name"), value_of(match.group("type"), match.group("value")), shown


def page(root):
    out = [HEADING]
    for name in read_layers(root):
        headers = [
            path
            for path in sorted((root / "src" / name).rglob("limits.h"))
            if name.count("/") or path.relative_to(root / "src").parts[0] != "fronts"
        ]
        for header in headers:
            rows = list(constants(header.read_text()))
            if not rows:
                continue
            path = header.relative_to(root).as_posix()
            out.append(f"## {name}\n\n[{path}](../{path})\n\n| bound | value | |\n|---|---|---|")
            out.append("\n".join("| `{}` | {} | {} |".format(*(cell.replace("|", "\\|") for cell in row)) for row in rows) + "\n")
    return "\n".join(out)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    text = page(root)
    if sys.argv[1:] == ["--write"]:
        (root / PAGE).write_text(text)
        return 0
    if (root / PAGE).is_file() and (root / PAGE).read_text() == text:
        return 0
    print(f"{PAGE}:1: is not what the headers say (tools/list_limits.py --write)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
