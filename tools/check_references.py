#!/usr/bin/env python3
"""Holds docs/architecture.md, docs/broken-on-purpose.md and docs/glossary.md to the code that they name.

A code span that begins with a directory of ours is a reference: `src/lanes/lane.cc`, `src/store`, or, with
what is to be found there, `src/lanes/lane.cc: Lane::submit`. The path must exist, and the code there (of a
directory: one of its files) must have the name, outside comments: as it stands, or its last part where its first
is defined. Tests do not count.

Prints one `file:line: message` for each fault.
"""

import pathlib
import re
import sys

from cxx_source import line_of, without_comments

PAGES = ("docs/architecture.md", "docs/broken-on-purpose.md", "docs/glossary.md")
REFERENCE = re.compile(r"`((?:src|tests|bench|examples|tools)/[\w./-]*)(?:: ([\w:~]+)(?:\(\))?)?`")


def has(path, name):
    """Whether the code of a file has a name: Lane::submit, or submit in a file that defines Lane."""
    text = path.read_text(errors="replace")
    if path.suffix in (".h", ".cc", ".cu"):
        text = without_comments(text)
    if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
        return True
    scope, _, last = name.rpartition("::")
    defines = re.search(rf"\b(?:class|struct|namespace)\s[\w:() ]*\b{re.escape(scope)}\b", text)
    return scope != "" and defines is not None and re.search(rf"(?<!\w){re.escape(last)}(?!\w)", text) is not None


def fault(root, path, name):
    """What is wrong with one reference, or None."""
    named = root / path
    if not named.exists():
        return f"{path} does not exist"
    if name is None:
        return None
    files = [named]
    if named.is_dir():
        files = [f for f in sorted(named.rglob("*")) if f.is_file() and "tests" not in f.relative_to(root).parts[1:]]
    if any(has(file, name) for file in files):
        return None
    return f"{path} has no {name}"


def faults(root, page):
    text = (root / page).read_text()
    for match in REFERENCE.finditer(text):
        message = fault(root, match.group(1), match.group(2))
        if message is not None:
            yield f"{page}:{line_of(text, match.start())}: {message}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = [message for page in PAGES for message in faults(root, page)]
    for message in found:
        print(message)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
