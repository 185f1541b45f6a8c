#!/usr/bin/env python3
"""Finds tests that cannot fail.

A TEST, TEST_F, TEST_P or TYPED_TEST needs an assertion of GoogleTest in its body, or a call of a function that
has one: one in the same file, in a header or a source without tests beside it, in what those include, or in the
test library. SUCCEED() and GTEST_SKIP() assert nothing. Constructors do not count: what they assert is that the
test could begin.

Prints one `file:line: message` for each such test.
"""

import pathlib
import re
import sys

from cxx_source import code_files, line_of, without_comments

TEST = re.compile(r"^[ \t]*(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*\{", re.MULTILINE)
ASSERTION = re.compile(r"\b(?:(?:EXPECT|ASSERT)_[A-Z_0-9]+|ADD_FAILURE(?:_AT)?|(?:GTEST_)?FAIL)\s*\(")
# Types are written in PascalCase here: what begins with a small letter is a function.
CALL = re.compile(r"\b([a-z]\w*)\s*(?:<[\w\s:,&*]*>)?\s*\(")
# What may stand between a function's parameters and its body.
BEFORE_BODY = re.compile(r"\s*(?:(?:const|noexcept|override|final)\b\s*|&+\s*|->\s*[\w:<>&*\s,]+?(?=\{))*\{")
NO_FUNCTION = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "alignof"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
TESTING = "src/testing"


def closing(text, begin):
    """The offset behind the bracket that closes the one at `begin`, or the text's end."""
    opening = text[begin]
    end = {"(": ")", "{": "}"}[opening]
    depth = 0
    for match in re.compile(f"[{re.escape(opening + end)}]").finditer(text, begin):
        depth += 1 if match[0] == opening else -1
        if depth == 0:
            return match.end()
    return len(text)


def functions(text):
    """The name and the body of every function that is defined in the text."""
    for match in CALL.finditer(text):
        if match[1] in NO_FUNCTION:
            continue
        body = BEFORE_BODY.match(text, closing(text, match.end() - 1))
        if body:
            yield match[1], text[body.end() - 1 : closing(text, body.end() - 1)]


def asserting(bodies):
    """The names of those functions (name, body) that assert, by themselves or by others of them."""
    names = {name for name, body in bodies if ASSERTION.search(body)}
    while True:
        more = {name for name, body in bodies if any(call[1] in names for call in CALL.finditer(body))} - names
        if not more:
            return names
        names |= more


class Tests:
    def __init__(self, root):
        self.texts = {}
        self.by_name = {}
        self.bodies = {}
        for path in code_files(root, "src", "tests"):
            parts = path.relative_to(root).parts
            if "tests" in parts[:-1] or parts[:2] == tuple(TESTING.split("/")):
                self.texts[path] = without_comments(path.read_text(errors="replace"), keep_strings=True)
                self.by_name.setdefault(path.name, []).append(path)
        self.testing = [path for path in self.texts if path.is_relative_to(root / TESTING)]

    def bodies_of(self, path):
        if path not in self.bodies:
            self.bodies[path] = list(functions(without_comments(self.texts[path])))
        return self.bodies[path]

    def seen_by(self, path):
        """The files whose functions a test of this file may call."""
        helpers = [one for one in self.texts if one.parent == path.parent and not TEST.search(self.texts[one])]
        waiting, seen = [path, *helpers, *self.testing], set()
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                for match in INCLUDE.finditer(self.texts[one]):
                    waiting += self.by_name.get(pathlib.PurePosixPath(match[1]).name, [])
        return seen

    def faults(self, path):
        text = without_comments(self.texts[path])
        tests = list(TEST.finditer(text))
        if not tests:
            return
        names = asserting([body for one in sorted(self.seen_by(path)) for body in self.bodies_of(one)])
        for match in tests:
            body = text[match.end() - 1 : closing(text, match.end() - 1)]
            test = f"{match[1]}.{match[2]}"
            if ASSERTION.search(body) or any(call[1] in names for call in CALL.finditer(body)):
                continue
            yield line_of(text, match.start()), f"{test} asserts nothing: it cannot fail"


def check(root):
    """All faults in the repository at root, as (path, line, message)."""
    tests = Tests(root)
    return [(path, line, message) for path in sorted(tests.texts) for line, message in tests.faults(path)]


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    faults = check(root)
    for path, line, message in faults:
        print(f"{path.relative_to(root)}:{line}: {message}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
