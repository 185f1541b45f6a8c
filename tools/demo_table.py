#!/usr/bin/env python3
"""Prints the rows of a report of `penstock bench --json` that the last page of the demo shows, 80 columns wide.

A ratio is the median of the rounds', not that of the medians, so it may differ a little from what the
two figures beside it say.
"""

import json
import sys

# What a newcomer asks first: small and large, through rings and through the mount, and files.
ROWS = (
    ("ring.read.4k.random.qd64", "rings: read 4 KiB at random, 64 at once"),
    ("ring.read.1m.random.qd16", "rings: read 1 MiB at random, 16 at once"),
    ("ring.write.1m.random.qd16", "rings: write 1 MiB durably, 16 at once"),
    ("mount.read.1m.sequential", "mount: read a file, not cached"),
    ("mount.write.1m.sequential", "mount: write a file"),
    ("mount.create.4k", "mount: make files of 4 KiB"),
    ("mount.open_read.4k.warm", "mount: open and read files of 4 KiB again"),
    ("mount.sqlite.wal", "mount: transactions of sqlite (WAL)"),
)


def figure(value, unit):
    if unit == "MB/s":
        return f"{value / 1000:.2f} GB/s" if value >= 1000 else f"{value:.0f} MB/s"
    return f"{value / 1000:.1f} k/s" if value >= 1000 else f"{value:.0f} /s"


def rows(report):
    """(what, ours, the reference's, ratio) of those lines of a report that were measured beside one."""
    lines = {line["name"]: line for line in report}
    for name, what in ROWS:
        line = lines.get(name)
        if line is None or line["reference"] is None or line["ratio"] is None:
            continue
        yield what, figure(line["value"], line["unit"]), figure(line["reference"], line["unit"]), f"{line['ratio']:.2f}"


def table(report):
    layout = "  {:<43}{:>11}{:>12}{:>8}"
    return "\n".join(
        [layout.format("how fast", "Penstock", "reference", "ratio"), "  " + "-" * 74]
        + [layout.format(*row) for row in rows(report)]
    )


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(table(json.load(file)))
