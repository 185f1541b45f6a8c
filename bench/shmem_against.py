#!/usr/bin/env python3
"""Compares Penstock's OpenSHMEM with another one, Debian's Open MPI by default (packages openmpi-bin, libopenmpi-dev).

Builds bench/shmem_bench.c with both compiler wrappers, runs both in turn, and prints each figure's median of all
rounds with the ratio: above 1 Penstock is better. As root, Open MPI wants OMPI_ALLOW_RUN_AS_ROOT=1 and
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, which are set here.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FIGURE = re.compile(r"^(\S+) ([0-9.]+) (us|GB/s)$")


def build(compiler, program):
    subprocess.run([compiler, "-O2", "-o", program, HERE / "shmem_bench.c"], check=True)


def run(launcher, pes, program, environment):
    """The figures of one run. What a program prints after them, and how it ends, is its own affair, but said."""
    done = subprocess.run([*launcher, "-np", str(pes), program], capture_output=True, text=True, env=environment)
    figures = {}
    for line in done.stdout.splitlines():
        if match := FIGURE.match(line):
            figures[match[1]] = (float(match[2]), match[3])
    if done.returncode != 0:
        print(f"{launcher[0]}: exit code {done.returncode} after {len(figures)} figures", file=sys.stderr)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bin", default=HERE.parent / "build/release/bin", type=pathlib.Path, help="Penstock's oshcc, oshrun")
    parser.add_argument("--other-cc", default="/usr/bin/oshcc")
    parser.add_argument("--other-run", default="/usr/bin/oshrun --oversubscribe")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "SHMEM_SYMMETRIC_SIZE": "512M",
    }
    seen = {"own": collections.defaultdict(list), "other": collections.defaultdict(list)}
    units = {}
    with tempfile.TemporaryDirectory() as scratch:
        own, other = os.path.join(scratch, "own"), os.path.join(scratch, "other")
        build(options.bin / "oshcc", own)
        build(options.other_cc, other)
        for _ in range(options.rounds):
            for which, launcher, program in (
                ("own", [str(options.bin / "oshrun")], own),
                ("other", options.other_run.split(), other),
            ):
                for name, (value, unit) in run(launcher, options.pes, program, environment).items():
                    seen[which][name].append(value)
                    units[name] = unit
    rows = []
    for name, unit in units.items():
        if not seen["own"][name] or not seen["other"][name]:
            continue
        one, two = statistics.median(seen["own"][name]), statistics.median(seen["other"][name])
        better = two / one if unit == "us" else one / two
        rows.append({"name": name, "unit": unit, "penstock": one, "other": two, "ratio": round(better, 3)})
        print(f"{name:16} {one:12.4f} {two:12.4f} {unit:5} {better:6.2f}")
    if options.json:
        options.json.write_text(json.dumps({"pes": options.pes, "rounds": options.rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
