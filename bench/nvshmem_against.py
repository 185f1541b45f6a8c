#!/usr/bin/env python3
"""Compares Penstock's NVSHMEM with NVIDIA's: nvshmem_bench.cu or collectives_bench.cu, built with either.

Runs both programs in turn, and prints each figure's median of all rounds with the ratio: above 1 Penstock is better.
Where the program prints what a bare loop of one block copies, puts of that block have a ratio to it, too.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

NVIDIAS = {"NVSHMEM_DISABLE_NVLS": "1", "NVSHMEM_REMOTE_TRANSPORT": "none", "NCCL_NVLS_ENABLE": "0"}


def figures_of(line):
    """(what, unit, value) of a line, or None: nvshmem_bench's have six words, collectives_bench's three."""
    words = line.split()
    try:
        if len(words) == 6:
            return tuple(words[:4]), words[4], float(words[5])
        if len(words) == 3:
            return (words[0], "stream", "", words[1]), "us", float(words[2])
    except ValueError:
        pass
    return None


def run(command, environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        print(f"{command[0]}: exit code {done.returncode}", file=sys.stderr)
    return [found for line in done.stdout.splitlines() if (found := figures_of(line))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("own", help="the program built with Penstock's library")
    parser.add_argument("other", help="the same built with NVIDIA's")
    parser.add_argument("arguments", nargs="*", help="of both programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--below", type=float, help="print only ratios below this one")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    seen = {"own": collections.defaultdict(list), "other": collections.defaultdict(list)}
    units = {}
    for _ in range(options.rounds):
        for which, program in (("own", options.own), ("other", options.other)):
            environment = os.environ if which == "own" else {**os.environ, **NVIDIAS}
            for what, unit, value in run([program, *options.arguments], environment):
                seen[which][what].append(value)
                units[what] = unit
    rows = []
    for what, unit in units.items():
        own, other = seen["own"][what], seen["other"][what]
        if not own or not other:
            continue
        one, two = statistics.median(own), statistics.median(other)
        if one == 0 or two == 0:
            continue
        is_time = unit in ("us", "ns")
        row = dict(zip(("name", "by", "grid", "bytes"), what))
        row |= {"unit": unit, "penstock": one, "other": two, "ratio": round(two / one if is_time else one / two, 3)}
        bare = seen["own"].get(("bare", *what[1:]))
        if what[0] == "put" and bare:
            row["of_bare"] = round(one / statistics.median(bare), 3)
        rows.append(row)
        if options.below is None or row["ratio"] < options.below:
            of_bare = f"  {row['of_bare']:.2f} of a bare loop" if "of_bare" in row else ""
            print(f"{' '.join(what):42} {one:12.3f} {two:12.3f} {unit:5} {row['ratio']:6.2f}{of_bare}")
    if options.json:
        options.json.write_text(json.dumps({"rounds": options.rounds, "rows": rows}, indent=1) + "\n")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
