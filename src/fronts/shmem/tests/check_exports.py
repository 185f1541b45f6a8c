#!/usr/bin/env python3
"""The shared library exports each function of shmem.h, under its own and its profiling name, and nothing else; and the
program for functions without a type calls each of them."""

import argparse
import pathlib
import re
import subprocess
import sys

FRONT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FRONT))

import functions  # noqa: E402


def exported(nm, library):
    lines = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    declared = functions.all_functions() + functions.before_c11()
    names = {function.name for function in declared}
    wanted = names | {"p" + name for name in names}
    found = exported(arguments.nm, arguments.library)
    faults = [f"{name} is not exported" for name in sorted(wanted - found)]
    faults += [f"{name} is exported" for name in sorted(found - wanted)]
    program = "".join((FRONT / "tests" / name).read_text() for name in ("every_other_function.c", "misuse.c"))
    faults += [f"{function.name} is called by no test" for function in declared
               if function.operation is None and not re.search(rf"\b{function.name}\b", program)]
    for fault in faults:
        print(fault)
    print(f"{len(names)} functions")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
