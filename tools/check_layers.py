#!/usr/bin/env python3
"""Holds the code to the order of src/layers.txt.

- A library includes, and in CMake links, only itself and libraries above it in the list.
- Fronts never use one another, but for fronts/base.
- Another library's headers are reached through its umbrella only: include/penstock/<lib>.h (or what
  else stands directly in include/); its parts and its private files are its own.
- Outside headers are included only by the library whose line names them. tests/, bench/ and examples/ stand
  after the list and may use any library.
- The test library (testing/) is included by tests only, which is what stands in a directory tests/ or fuzz/, and
  linked by penstock_test() and penstock_fuzz() only. A library's tests use a part of it that stands behind that library
  or above it in the list.

As every arrow points up the list, there can be no cycle. Prints one `file:line: message` for each fault.
"""

import pathlib
import re
import sys

from cxx_source import code_files, line_of, read_layers, without_comments

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
COMMON_FRONT = "fronts/base"  # What fronts have in common; penstock_front in CMake.
TOP = "tests, bench and examples"  # Pseudo-library of what stands after the list.
TESTING = "testing/"  # What the names of the test library's parts begin with.
TEST_DIRECTORIES = {"tests", "fuzz"}
TEST_CALL = re.compile(r"\bpenstock_(?:test|fuzz)\s*\([^()]*\)|\btarget_link_libraries\s*\(\s*\w+_tests\b[^()]*\)")


class House:
    def __init__(self, root):
        self.root = root
        self.layers = read_layers(root)
        self.headers = {}  # include path -> library, for everything under an include/ directory
        for name in self.layers:
            base = root / "src" / name / "include"
            for path in code_files(root, f"src/{name}/include"):
                self.headers[path.relative_to(base).as_posix()] = name

    def library_of(self, path):
        """The library that owns a file of the repository; None for what is not a library's."""
        parts = path.relative_to(self.root).parts
        if parts[0] in ("tests", "bench", "examples"):
            return TOP
        if parts[0] != "src":
            return None
        for depth in (2, 1):
            name = "/".join(parts[1 : 1 + depth])
            if name in self.layers:
                return name
        return None

    def is_test(self, path):
        """Whether a file is part of a test, or of what only tests use."""
        parts = path.relative_to(self.root).parts
        return parts[:2] == ("src", TESTING[:-1]) or bool(TEST_DIRECTORIES & set(parts[:-1]))

    def testing_fault(self, user, used, in_test):
        """What is wrong with the use of a part of the test library, or None."""
        if not in_test:
            return f"{used} is for tests only: production code must run without it"
        if user == TOP or user == used or user.startswith(TESTING):
            return self.order_fault(user, used)
        between = [
            name
            for name, layer in self.layers.items()
            if self.layers[user].rank < layer.rank < self.layers[used].rank and not name.startswith(TESTING)
        ]
        return f"tests of {user} may not use {used}, which stands behind {between[-1]}" if between else None

    def arrow_fault(self, user, used, in_test=False):
        """What is wrong with an arrow between two libraries, or None."""
        if used.startswith(TESTING):
            return self.testing_fault(user, used, in_test)
        return self.order_fault(user, used)

    def order_fault(self, user, used):
        """What is wrong with an arrow by the order of the list, or None."""
        if user == TOP or user == used:
            return None
        if user.startswith("fronts/") and used.startswith("fronts/") and used != COMMON_FRONT:
            return f"fronts never use one another: {user} uses {used}"
        if self.layers[used].rank > self.layers[user].rank:
            return f"{user} may not use {used}, which stands below it in src/layers.txt"
        return None

    def outside_owners(self, header):
        return [
            name
            for name, layer in self.layers.items()
            for prefix in layer.outside
            if header == prefix or (prefix.endswith("/") and header.startswith(prefix))
        ]

    def include_fault(self, path, user, quoted, header):
        """What is wrong with one include, or None."""
        if quoted:
            beside = (path.parent / header).resolve()
            within = [beside]
            if user != TOP:
                within.append((self.root / "src" / user / header).resolve())
            for candidate in within:
                if candidate.is_file() and candidate.is_relative_to(self.root.resolve()):
                    owner = self.library_of(self.root / candidate.relative_to(self.root.resolve()))
                    if owner not in (user, None):
                        return f'"{header}" is a private file of {owner}; include its public header'
                    return None
        owner = self.headers.get(header) or self.missing_owner(header)
        if owner is not None:
            if owner != user and header.startswith("penstock/") and header.count("/") > 1:
                return f'"{header}" is a part of {owner}; include its umbrella header'
            return self.arrow_fault(user, owner, self.is_test(path))
        owners = self.outside_owners(header)
        if owners and user not in owners and user != TOP:
            return f"<{header}> belongs to {' and '.join(owners)} alone"
        return None

    def missing_owner(self, header):
        """The library of a header that is generated, or not there yet: penstock/<lib>/..."""
        match = re.fullmatch(r"penstock/([a-z0-9_]+)(?:/.+|\.h)", header)
        if not match:
            return None
        for name in (match[1], f"fronts/{match[1]}"):
            if name in self.layers:
                return name
        return None

    def check_file(self, path):
        user = self.library_of(path)
        if user is None:
            return [(path, 1, "this directory is not in src/layers.txt")]
        text = without_comments(path.read_text(errors="replace"), keep_strings=True)
        faults = []
        for match in INCLUDE.finditer(text):
            fault = self.include_fault(path, user, match[1] == '"', match[2])
            if fault:
                faults.append((path, line_of(text, match.start(1)), fault))
        return faults

    def check_links(self, name):
        """The targets that a library's CMakeLists.txt names, and the DEPENDS of penstock_library()."""
        path = self.root / "src" / name / "CMakeLists.txt"
        if not path.is_file():
            return [(path, 1, "listed in src/layers.txt, but there is no such file")]
        text = cmake_text(path)
        named = [(m[1], m.start()) for m in re.finditer(r"\bpenstock_([a-z0-9]+)\b", text)]
        for block in re.finditer(r"\bDEPENDS\s+((?:[a-z0-9_]+\s+)*[a-z0-9_]+)", text):
            named += [(m[0], block.start(1) + m.start()) for m in re.finditer(r"\S+", block[1])]
        faults = []
        for word, offset in named:
            for used in (word, COMMON_FRONT if word == "front" else f"fronts/{word}"):
                if used in self.layers and (used != COMMON_FRONT or word == "front"):
                    fault = self.arrow_fault(name, used)
                    if fault:
                        faults.append((path, line_of(text, offset), fault))
        return faults

    def check_test_links(self, path):
        """The parts of the test library that a CMakeLists.txt names."""
        user = self.library_of(path) or TOP
        text = cmake_text(path)
        calls = [(match.start(), match.end()) for match in TEST_CALL.finditer(text)]
        faults = []
        for match in re.finditer(r"\bpenstock_testing(?:_([a-z]+))?\b", text):
            part = f"{TESTING}{match[1]}"
            used = part if part in self.layers else f"{TESTING}base"
            in_test = self.is_test(path) or any(begin < match.start() < end for begin, end in calls)
            fault = used in self.layers and self.arrow_fault(user, used, in_test)
            if fault:
                faults.append((path, line_of(text, match.start()), fault))
        return faults


def cmake_text(path):
    """A CMake file with its comments blank."""
    return re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), path.read_text())


def check(root):
    """All faults in the repository at root, as (path, line, message)."""
    house = House(root)
    faults = []
    for path in code_files(root, "src", "tests", "bench", "examples"):
        faults += house.check_file(path)
    for name in house.layers:
        faults += house.check_links(name)
    for directory in ("src", "tests", "bench", "examples"):
        for path in sorted((root / directory).rglob("CMakeLists.txt")):
            faults += house.check_test_links(path)
    return faults


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    faults = check(root)
    for path, line, message in faults:
        print(f"{path.relative_to(root)}:{line}: {message}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
