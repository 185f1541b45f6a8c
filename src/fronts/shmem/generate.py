#!/usr/bin/env python3
"""Writes what is made from table.py into a directory: include/ (the headers), the sources of the typed functions, and the
programs that call every function. Files whose content stays are left alone, so that nothing is built again for them."""

import argparse
import pathlib

import definitions
import headers
import programs
import selections

SAME_IN_MPP = ["shmem.h", "shmemx.h", "pshmem.h"]  # Programs of old include <mpp/shmem.h>.


def files(vendor):
    yield "include/shmem.h", headers.shmem_h(vendor)
    yield "include/shmem_generic.h", selections.generic_h()
    yield "include/shmem_overloads.h", selections.overloads_h()
    yield "include/pshmem.h", headers.pshmem_h()
    yield "include/shmemx.h", headers.SHMEMX
    for name in SAME_IN_MPP:
        yield f"include/mpp/{name}", f'/* {name}, where programs of old look for it. */\n#include "../{name}"\n'
    for name in definitions.SOURCES:
        yield name, definitions.source(name)
    yield from programs.files()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--vendor", required=True, help="what shmem_info_get_name() says")
    arguments = parser.parse_args()
    for name, text in files(arguments.vendor):
        path = arguments.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main()
