#!/usr/bin/env python3
"""Copies libnvshmem.a, and writes into the copy the directory in which libnvshmem_host.so will be beside it."""

import argparse
import pathlib
import sys

MARK = b"penstock beside:"
SIZE = 4096  # PATH_MAX, of what loading.c keeps


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("to", type=pathlib.Path)
    parser.add_argument("--beside", required=True, help="the directory, as programs will find it")
    arguments = parser.parse_args()
    beside = MARK + arguments.beside.encode()
    if len(beside) >= SIZE:
        sys.exit(f"{arguments.beside}: longer than a path may be")
    content = arguments.archive.read_bytes()
    # The mark is in the code that reads behind it, too: there its string ends.
    starts = [at for at in range(len(content)) if content.startswith(MARK + b"/", at)]
    if len(starts) != 1:
        sys.exit(f"{arguments.archive}: has {len(starts)} places for the directory, not one")
    at = starts[0]
    arguments.to.parent.mkdir(parents=True, exist_ok=True)
    arguments.to.write_bytes(content[:at] + beside.ljust(SIZE, b"\0") + content[at + SIZE:])


if __name__ == "__main__":
    main()
