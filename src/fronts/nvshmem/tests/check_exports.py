#!/usr/bin/env python3
"""The shared library exports each function that the headers declare for the host, and nothing else but what their inline
code calls; and a program of tests/ calls each of them that has no type in its name."""

import argparse
import pathlib
import re
import subprocess
import sys

FRONT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FRONT))

import functions  # noqa: E402

# Called by headers/*.h.
OF_HEADERS = {"penstock_symm_add_unit", "penstock_nvshmem_ready"}

# Sources of tests that are no programs against the headers.
NOT_PROGRAMS = {"environment_test.cc", "kernel_watch_test.cc", "registrations_test.cc", "team_meeting_test.cc"}


def exported(nm, library):
    lines = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    declared = [function for function in functions.all_functions() if "host" in function.by]
    names = {function.name for function in declared}
    found = exported(arguments.nm, arguments.library)
    faults = [f"{name} is not exported" for name in sorted(names - found)]
    faults += [f"{name} is exported" for name in sorted(found - names - OF_HEADERS)]
    program = "".join(path.read_text() for path in sorted((FRONT / "tests").rglob("*.c*"))
                      if path.suffix in (".c", ".cc", ".cu") and path.name not in NOT_PROGRAMS)
    faults += [f"{function.name} is called by no program" for function in declared
               if function.operation is None and not re.search(rf"\b{function.name}\b", program)]
    for fault in faults:
        print(fault)
    print(f"{len(names)} functions")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
