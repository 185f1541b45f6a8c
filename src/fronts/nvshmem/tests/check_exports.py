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

# Declared and not there yet: families as the table names their templates, and single functions. What is there is taken
# off; the check ends with an error for what is still listed.
MISSING_FAMILIES = set()
MISSING = set()
# Ends the program, or begins it in a way that one of them cannot.
NOT_IN_PROGRAMS = {"nvshmem_global_exit", "nvshmem_init_thread", "nvshmemx_init_attr", "nvshmemx_hostlib_init_attr",
                   "nvshmemx_hostlib_finalize", "nvshmemx_get_uniqueid", "nvshmemx_set_attr_uniqueid_args"}
PROGRAMS = ["every_host_main.cc", "other_host_functions.cc", "misuse_host.cc", "buffers_main.cu", "modules_main.cu",
            "layout/by_mpi.c"]


def exported(nm, library):
    lines = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines()}


def family(function):
    return function.operation.call.partition("<")[0] if function.operation else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    declared = [function for function in functions.all_functions() if "host" in function.by]
    names = {function.name for function in declared}
    missing = {function.name for function in declared if family(function) in MISSING_FAMILIES} | MISSING
    found = exported(arguments.nm, arguments.library)
    faults = [f"{name} is not exported" for name in sorted(names - missing - found)]
    faults += [f"{name} is exported" for name in sorted(found - names - OF_HEADERS)]
    faults += [f"{name} is exported: it is not missing any more" for name in sorted(found & missing)]
    faults += [f"{name} is listed as missing, and declared nowhere" for name in sorted(MISSING - names)]
    program = "".join((FRONT / "tests" / name).read_text() for name in PROGRAMS)
    faults += [f"{function.name} is called by no program" for function in declared
               if function.operation is None and function.name not in NOT_IN_PROGRAMS | missing
               and not re.search(rf"\b{function.name}\b", program)]
    for fault in faults:
        print(fault)
    print(f"{len(names)} functions, {len(missing)} not there yet")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
