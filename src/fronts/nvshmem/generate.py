#!/usr/bin/env python3
"""Writes what is made from table.py into a directory: include/ (the headers), and the programs that call every function.
Files whose content stays are left alone, so that nothing is built again for them."""

import argparse
import pathlib

import definitions
import definitions_collectives
import headers
import programs
import trampoline


def files(vendor):
    yield "include/nvshmem.h", headers.nvshmem_h()
    yield "include/nvshmem_host.h", headers.host_h(vendor)
    yield "include/nvshmem_device.h", headers.device_h()
    for name in headers.OTHERS:
        yield "include/" + name, headers.other(name)
    for name, missing in headers.WITHOUT_OWN.items():
        yield "include/" + name, headers.without_own(name, missing)
    yield from definitions.files()
    yield "definitions_collectives.cc", definitions_collectives.source()
    yield from programs.files()
    yield from trampoline.files()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--vendor", required=True, help="what nvshmem_info_get_name() says")
    arguments = parser.parse_args()
    for name, text in files(arguments.vendor):
        path = arguments.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main()
