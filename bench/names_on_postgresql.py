#!/usr/bin/env python3
"""Files made by 16 clients with their names on a PostgreSQL server, beside the same rows by pgbench.

    bench/names_on_postgresql.py PROGRAM [--rounds N] [--seconds N] [--json FILE]

PROGRAM is names_bench (ninja names_bench). Both run in turn on one server of their own, with fsync, in a directory below
TMPDIR. pgbench makes one transaction for each file: the two reads and the four rows of a creation, prepared. A ratio is the
median over the rounds. Needs the package postgresql.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import tempfile
import time

BUDGET = 0.6
CLIENTS = 16

SCRIPT = r"""
\set id random(1, 1000000000000)
\set directory 1000 + :client_id % DIRECTORIES
BEGIN;
SELECT value FROM record WHERE key = ('I' || :directory)::bytea;
SELECT value FROM record WHERE key = ('D' || :directory || 'name' || :id)::bytea;
INSERT INTO record VALUES (('I' || :id)::bytea, repeat('i', 60)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
INSERT INTO record VALUES (('D' || :directory || 'name' || :id)::bytea, repeat('d', 12)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
INSERT INTO record VALUES (('C' || :directory || :id)::bytea, repeat('d', 16)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
INSERT INTO record VALUES (('T' || :directory)::bytea, repeat('t', 17)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
COMMIT;
"""


class Server:
    def __init__(self, scratch):
        self.programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.scratch = scratch
        self.user = {}
        if os.geteuid() == 0:  # The server refuses to run as root.
            os.chown(scratch, 65534, 65534)
            self.user = {"user": 65534, "group": 65534, "extra_groups": []}
        self.run("initdb", "-D", f"{scratch}/data", "-U", "penstock", "-A", "trust", "-E", "UTF8", "--locale=C")
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", f"{scratch}/data", "-k", scratch, "-c", "listen_addresses=", "-c",
             "max_connections=100", "-c", "shared_buffers=128MB"],
            stderr=subprocess.DEVNULL, cwd="/", **self.user)
        while subprocess.run([self.programs / "pg_isready", "-q", "-h", scratch], check=False).returncode != 0:
            time.sleep(0.1)

    def run(self, name, *words):
        subprocess.run([self.programs / name, *words], check=True, stdout=subprocess.DEVNULL, cwd="/", **self.user)

    def sql(self, database, text):
        self.run("psql", "-Xq", "-h", self.scratch, "-U", "penstock", "-d", database, "-v", "ON_ERROR_STOP=1", "-c", text)

    def url(self, database):
        return f"host={self.scratch} user=penstock dbname={database}"

    def stop(self):
        self.process.send_signal(2)
        self.process.wait()


def number(text, pattern):
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"not understood: {text}")
    return float(found.group(1))


def ours(options, server, directories):
    ran = subprocess.run(
        [options.program, server.url("ours"), f"seconds={options.seconds}", f"clients={CLIENTS}",
         f"directories={directories}"], check=True, capture_output=True, text=True)
    return number(ran.stdout, r"(\d+) creations/s, 0 failed")


def theirs(options, server, directories):
    script = pathlib.Path(server.scratch) / "create.sql"
    script.write_text(SCRIPT.replace("DIRECTORIES", str(directories)))
    ran = subprocess.run(
        [server.programs / "pgbench", "-n", "-M", "prepared", "-f", script, "-c", str(CLIENTS), "-j", "2", "-T",
         str(options.seconds), "-h", server.scratch, "-U", "penstock", "theirs"], check=True, capture_output=True, text=True)
    return number(ran.stdout, r"tps = (\d+)")


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} x {model.group(1) if model else platform.machine()}, {memory:.1f} GiB, Linux {platform.release()}"


def measure(options, server, directories):
    rounds = [(ours(options, server, directories), theirs(options, server, directories)) for _ in range(options.rounds)]
    ratio = statistics.median(own / reference for own, reference in rounds)
    return {
        "name": f"names.postgresql.create.{directories}",
        "title": f"{CLIENTS} clients make files in {directories} {'directory' if directories == 1 else 'directories'}",
        "unit": "files/s",
        "value": statistics.median(own for own, _ in rounds),
        "reference": statistics.median(reference for _, reference in rounds),
        "ratio": ratio,
        "budget": BUDGET,
        "met": ratio >= BUDGET,
        "note": "pgbench, a transaction of the same rows, on the same server, in turn",
        "machine": machine(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(scratch)
        try:
            server.sql("postgres", "CREATE DATABASE ours")
            server.sql("postgres", "CREATE DATABASE theirs")
            server.sql("theirs", "CREATE TABLE record (key bytea PRIMARY KEY, value bytea NOT NULL) WITH (fillfactor = 90)")
            results = [measure(options, server, directories) for directories in (CLIENTS, 1)]
        finally:
            server.stop()
    for one in results:
        print(f"{one['title']}: {one['value']:.0f}/s, pgbench {one['reference']:.0f}/s, ratio {one['ratio']:.2f} "
              f"(budget {BUDGET})")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
