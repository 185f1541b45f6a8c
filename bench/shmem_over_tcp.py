#!/usr/bin/env python3
"""Compares OpenSHMEM between two network namespaces with a bare socket between them, and with another OpenSHMEM.

Takes root's rights (for `ip netns`). Builds bench/shmem_far_bench.c with both compiler wrappers, runs all in turn, and
prints each figure's median of all rounds with that of the ratios to the bare socket in the same round, above 1 where
Penstock is better. The other one (--other) is Debian's Open MPI with UCX over TCP on one machine, as it starts its processes by itself.
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
FIGURE = re.compile(r"^(\S+) ([0-9.]+) (us|GB/s)$", re.MULTILINE)
SECONDS = 120
TRIPS = 4
PORT = "7711"
ADDRESSES = ("10.79.0.1", "10.79.0.2")


class TwoNodes:
    """Two network namespaces and a pair of interfaces that joins them."""

    def __init__(self):
        self.names = [f"penstock-far-{side}{os.getpid()}" for side in "ab"]

    def __enter__(self):
        def ip(*words):
            subprocess.run(["ip", *words], check=True)

        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", "pfa", "netns", self.names[0], "type", "veth", "peer", "name", "pfb", "netns", self.names[1])
        for name, link, address in zip(self.names, ("pfa", "pfb"), ADDRESSES):
            ip("-n", name, "addr", "add", address + "/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def figures(command, environment=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})}, timeout=SECONDS)
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, code = (late.stdout or b"").decode(), "none in time"
    if code != 0:
        print(f"{command[0]}: exit code {code}", file=sys.stderr)
    return {name: (float(value), unit) for name, value, unit in FIGURE.findall(output)}


def bare(nodes, program, *words):
    with subprocess.Popen(["ip", "netns", "exec", nodes.names[1], program, "serve", PORT, *words]) as server:
        found = figures(["ip", "netns", "exec", nodes.names[0], program, "ask", ADDRESSES[1], PORT, *words])
        server.wait()
    return found


def own(nodes, launcher, program, *words):
    where = f"nodes=({' '.join(nodes.names)}); exec ip netns exec ${{nodes[PENSTOCK_RANK]}} {program} {' '.join(words)}"
    return figures([launcher, "-np", "2", "bash", "-c", where], {"PENSTOCK_JOB_NODES": "2", "SHMEM_SYMMETRIC_SIZE": "256M"})


def other(launcher, program):
    return figures([*launcher.split(), "-np", "2", program], {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "UCX_TLS": "tcp,self",
        "SHMEM_SYMMETRIC_SIZE": "256M"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bin", default=HERE.parent / "build/release/bin", type=pathlib.Path, help="Penstock's oshcc, oshrun")
    parser.add_argument("--other", action="store_true", help="Open MPI, too")
    parser.add_argument("--other-cc", default="/usr/bin/oshcc")
    parser.add_argument("--other-run", default="/usr/bin/oshrun --oversubscribe --mca memheap_base_verbose 0")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    seen = collections.defaultdict(lambda: collections.defaultdict(list))
    ratios = collections.defaultdict(list)
    units = {"round_trip": "us"}
    with tempfile.TemporaryDirectory() as scratch, TwoNodes() as nodes:
        program, theirs = os.path.join(scratch, "own"), os.path.join(scratch, "other")
        source = HERE / "shmem_far_bench.c"
        subprocess.run([options.bin / "oshcc", "-O2", "-o", program, source], check=True)
        if options.other:
            subprocess.run([options.other_cc, "-O2", "-o", theirs, source], check=True)
        # Short ones in turns, as a machine's mood changes.
        for _ in range(TRIPS * options.rounds):
            pair = bare(nodes, program, "trips"), own(nodes, str(options.bin / "oshrun"), program, "trips")
            for which, found in zip(("bare", "own"), pair):
                seen["round_trip"][which] += [value for value, _ in found.values()]
            if all(pair):
                ratios["round_trip"].append(pair[0]["round_trip"][0] / pair[1]["round_trip"][0])
        for _ in range(options.rounds):
            runs = {"bare": bare(nodes, program), "own": own(nodes, str(options.bin / "oshrun"), program)}
            if options.other:
                runs["other"] = other(options.other_run, theirs)
            for which, found in runs.items():
                for name, (value, unit) in found.items():
                    if name == "round_trip" and which != "other":
                        continue
                    seen[name][which].append(value)
                    units[name] = unit
            for name, (value, unit) in runs["own"].items():
                # A get is a put of the other side's.
                reference = runs["bare"].get(name.replace("get_nbi", "put").replace("get", "put"))
                if reference and name != "round_trip":
                    ratios[name].append(reference[0] / value if unit == "us" else value / reference[0])
    rows = []
    print(f"{'':14} {'Penstock':>10} {'bare':>10} {'ratio':>6} {'other':>10}")
    for name, by in seen.items():
        row = {"name": name, "unit": units[name], **{which: statistics.median(values) for which, values in by.items()}}
        ratio = ""
        if ratios[name]:
            row["ratio"] = round(statistics.median(ratios[name]), 3)
            ratio = f"{row['ratio']:.2f}"
        rows.append(row)
        cells = " ".join(f"{row[which]:10.3f}" if which in row else " " * 10 for which in ("own", "bare"))
        print(f"{name:14} {cells} {ratio:>6} {row['other']:10.3f} {units[name]}" if "other" in row else f"{name:14} {cells} {ratio:>6} {units[name]}")
    if options.json:
        options.json.write_text(json.dumps({"rounds": options.rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
