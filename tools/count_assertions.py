#!/usr/bin/env python3
"""Counts the assertions of each library, for each thousand lines of its main code.

Main code is what a library's .h and .cc files hold outside tests/, fuzz/, bench/ and what kernels include
(include/penstock_device*), where nothing can be asserted at run time; blank lines and comments count as
lines. ASSERT and DASSERT are counted, each macro once; static_assert stands apart.

With --least N NAME... only these are counted, and it is a fault when one of them has fewer than N.
"""

import argparse
import pathlib
import re
import sys

from cxx_source import code_files, read_layers, without_comments

ASSERTION = re.compile(r"\bD?ASSERT\s*\(")
STATIC = re.compile(r"\bstatic_assert\s*\(")
APART = re.compile(r"/(tests|fuzz|bench)/|/include/penstock_device|/include/penstock/store_fake\.h$")


def count(root, name):
    """Lines, assertions and static assertions of one library's main code."""
    lines = assertions = statics = 0
    for path in code_files(root, f"src/{name}"):
        if APART.search(path.as_posix()) or path.suffix not in (".h", ".cc"):
            continue
        text = path.read_text(errors="replace")
        code = without_comments(text)
        lines += text.count("\n")
        assertions += len(ASSERTION.findall(code))
        statics += len(STATIC.findall(code))
    return lines, assertions, statics


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=int, metavar="N", help="a fault below so many in a thousand lines")
    parser.add_argument("names", nargs="*", metavar="NAME", help="libraries; all of src/layers.txt without any")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    failed = False
    for name in options.names or read_layers(root):
        lines, assertions, statics = count(root, name)
        density = assertions * 1000 / lines if lines else 0
        if options.least is None:
            print(f"{name:16} {lines:6} lines {assertions:4} assertions {density:5.1f} in a thousand, {statics} static")
        elif density < options.least:
            print(f"src/{name}: {density:.1f} assertions in a thousand lines, {options.least} at least are wanted")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
