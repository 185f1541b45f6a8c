#!/usr/bin/env python3
"""Measures a mount of a Penstock cluster beside one of GlusterFS, both with three copies on this machine's disk.

Both run, one after the other in each round, in a network, mount and process namespace of this script's own, in which
everything ends with it. The same fio jobs go through both mounts and to the file system below; what is read was
dropped from the page cache before.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

NAMESPACES = "PENSTOCK_IN_NAMESPACES"
FILE_MIB = 1024
READY_SECONDS = 60
# name -> what fio is told, and what is read from its report.
JOBS = {
    "4 KiB random read, 32 at once": (["--rw=randread", "--bs=4k", "--iodepth=32"], "read"),
    "4 KiB random write, 32 at once": (["--rw=randwrite", "--bs=4k", "--iodepth=32"], "write"),
    "4 KiB durable write, 32 at once": (["--rw=randwrite", "--bs=4k", "--iodepth=32", "--sync=dsync"], "write"),
    "1 MiB random read, 8 at once": (["--rw=randread", "--bs=1m", "--iodepth=8"], "read"),
    "1 MiB random write, 8 at once": (["--rw=randwrite", "--bs=1m", "--iodepth=8"], "write"),
}
# GlusterFS refuses bricks on a loopback address; this one is only known within the namespace.
ADDRESS = "10.77.0.1"
STATE = ["/var/lib/glusterd", "/var/log/glusterfs", "/run"]


def die(why):
    sys.exit(f"beside_gluster: {why}")


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        die(f"'{' '.join(map(str, command))}' failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def wait_until(what, holds):
    end = time.monotonic() + READY_SECONDS
    while not holds():
        if time.monotonic() > end:
            die(f"{what} was not ready within {READY_SECONDS} s")
        time.sleep(0.2)


class Gluster:
    def __init__(self, scratch):
        self.mount = scratch / "gluster"
        bricks = [scratch / f"brick{number}" for number in (1, 2, 3)]
        for path in [self.mount, *bricks]:
            path.mkdir()
        # Nothing of this is the machine's own, and all of it ends with the namespace.
        for number, path in enumerate(STATE):
            state = scratch / f"state{number}"
            state.mkdir()
            pathlib.Path(path).mkdir(parents=True, exist_ok=True)
            run("mount", "--bind", state, path)
        pathlib.Path("/run/gluster").mkdir()
        subprocess.Popen(["glusterd", "--no-daemon"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ask = ["gluster", "--mode=script", "volume", "list"]
        wait_until("glusterd", lambda: subprocess.run(ask, capture_output=True, check=False).returncode == 0)
        places = [f"{ADDRESS}:{brick}" for brick in bricks]
        run("gluster", "--mode=script", "volume", "create", "beside", "replica", "3", *places, "force")
        run("gluster", "--mode=script", "volume", "start", "beside")
        run("mount", "-t", "glusterfs", f"{ADDRESS}:/beside", self.mount)


class Penstock:
    def __init__(self, scratch, program):
        self.mount = scratch / "penstock"
        self.mount.mkdir()
        nodes = [scratch / f"node{number}" for number in (1, 2, 3)]
        run(program, "up", nodes[0], "--listen", "127.0.0.1:9180", "--mount", self.mount, "--insecure", "-b")
        # GlusterFS does not prove who its servers are, and sends its bytes in the clear.
        invitation = json.loads(run(program, "cluster", nodes[0], "--json"))["invitation"]
        for node in nodes[1:]:
            run(program, "join", invitation, node, "--insecure", "-b")
        run(program, "set", f"{nodes[0]}:/", "--copies", "3")


class Plain:
    def __init__(self, scratch):
        self.mount = scratch / "plain"
        self.mount.mkdir()


def fio(mount, options, seconds):
    """The report of one job on the file below `mount`."""
    command = ["fio", "--name=job", f"--filename={mount}/file", f"--size={FILE_MIB}m", "--ioengine=libaio",
               "--direct=1", "--output-format=json", *options]
    if seconds:
        command += ["--time_based", f"--runtime={seconds}"]
    report = run(*command)
    return json.loads(report[report.index("{"):])["jobs"][0]


def measure(systems, rounds, seconds):
    """name of a job -> name of a system -> operations in a second, one for each round."""
    rates = {job: {name: [] for name in systems} for job in JOBS}
    for system in systems.values():
        fio(system.mount, ["--rw=write", "--bs=1m", "--iodepth=8", "--end_fsync=1"], 0)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for job, (options, way) in JOBS.items():
            for name, system in systems.items():
                run("sync")
                pathlib.Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
                rates[job][name].append(fio(system.mount, options, seconds)[way]["iops"])
    return rates


def show(rates):
    print(f"{'':34}{'GlusterFS':>12}{'Penstock':>12}{'ratio':>8}{'plain file':>12}")
    for job, found in rates.items():
        ratio = statistics.median(ours / theirs for ours, theirs in zip(found["Penstock"], found["GlusterFS"]))
        figures = [statistics.median(found[name]) for name in ("GlusterFS", "Penstock", "plain file")]
        print(f"{job:34}{figures[0]:10.0f}/s{figures[1]:10.0f}/s{ratio:8.2f}{figures[2]:10.0f}/s")


def within_namespaces(arguments):
    """This script again, as the first process of namespaces of its own."""
    if os.geteuid() != 0:
        die("it makes namespaces and mounts, which needs root's rights: run it with sudo")
    for program, package in (("glusterd", "glusterfs-server"), ("fio", "fio"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            die(f"'{program}' is not there: apt-get install {package}")
    os.environ[NAMESPACES] = "1"
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    os.execvp("unshare", [*command, sys.executable, os.path.abspath(__file__), *arguments])


def unmount_all(mounts):
    libc = ctypes.CDLL(None)
    for mount in mounts:
        libc.umount2(os.fsencode(mount), 2)  # MNT_DETACH: whoever serves it ends soon


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/penstock", help="the penstock to measure")
    parser.add_argument("--scratch", default="/var/tmp", help="a directory on the disk to measure on")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each job in each round")
    parser.add_argument("--json", help="write what was measured there")
    options = parser.parse_args()
    if NAMESPACES not in os.environ:
        within_namespaces(sys.argv[1:])
    program = pathlib.Path(options.program).absolute()
    if not program.exists():
        die(f"there is no '{program}': run ./dev build, or say where it is with --program")
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
    with contextlib.ExitStack() as cleaned:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="beside_gluster.", dir=options.scratch))
        cleaned.callback(shutil.rmtree, scratch, ignore_errors=True)
        cleaned.callback(unmount_all, [scratch / "gluster", scratch / "penstock", *STATE])
        systems = {"GlusterFS": Gluster(scratch), "Penstock": Penstock(scratch, program), "plain file": Plain(scratch)}
        rates = measure(systems, options.rounds, options.seconds)
    show(rates)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rates, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
