#!/usr/bin/env python3
"""A node under everything at once for a while: `./dev soak` calls it. For root, as it fills a disk.

Imports, writers and readers by rings and through the mount, and scrubs run beside each other on an
ext4 of their own, while the agent is killed every 10 s and the disk is full for 5 s each minute. At
the end every acknowledged write is there, scrub finds nothing, and memory and descriptors have not
grown over the last half. Exits with 1 if not.
"""

import argparse
import errno
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from soak_io import DURABLE, READ, WRITE, Ring, SLOT, figures_of, make_slot, version_in

SLOTS = 2048          # of each writer's file: 8 MiB
LIST = 16             # operations that a ring process has under way
KILL_EVERY = 10
FULL_EVERY, FULL_FOR = 60, 5
DISK_BYTES = 3 << 30
# What may come back while the agent is dead, or the disk full.
PASSING = {errno.ENOSPC, errno.EIO, errno.ENOTCONN, errno.ECONNABORTED, errno.ECONNRESET,
           errno.ECONNREFUSED, errno.ENOENT, errno.ETIMEDOUT, errno.EAGAIN, errno.ESTALE, errno.EROFS}


def passing(error):
    if error.errno not in PASSING:
        raise error
    time.sleep(0.1)


def ring_writer(setup, number, acknowledged, counts, stop):
    """`acknowledged[slot]` is the last version whose durable write was reported."""
    ring = Ring(setup.library, setup.store, LIST)
    file = ring.open(f"/ring-{number}", os.O_RDWR | os.O_CREAT)
    version = 0
    while not stop.is_set():
        version += 1
        slots = random.sample(range(SLOTS), LIST)
        results = ring.run(WRITE, DURABLE, file, [(s, make_slot(number, s, version)) for s in slots])
        for slot, (result, _) in zip(slots, results):
            if result == SLOT:
                acknowledged[slot] = version
                counts[0] += 1
            elif -result not in PASSING:
                raise OSError(-result, f"writing by ring: {os.strerror(-result)}")
            else:
                counts[1] += 1


def mount_writer(setup, number, acknowledged, counts, stop):
    version, file = 0, None
    while not stop.is_set():
        try:
            if file is None:
                file = os.open(f"{setup.mount}/mount-{number}", os.O_RDWR | os.O_CREAT, 0o644)
            version += 1
            slots = random.sample(range(SLOTS), LIST)
            for slot in slots:
                if os.pwrite(file, make_slot(number, slot, version), slot * SLOT) != SLOT:
                    raise OSError(errno.ENOSPC, "short write")
            os.fsync(file)
            for slot in slots:
                acknowledged[slot] = version
            counts[0] += LIST
        except OSError as error:
            counts[1] += 1
            if file is not None:
                try:
                    os.close(file)
                except OSError:
                    pass
                file = None
            passing(error)


def check_read(content, number, slot):
    if version_in(content, number, slot) < 0:
        raise RuntimeError(f"slot {slot} of writer {number} holds what was never written")


def read_by_mount(file, number, slot):
    """The kernel's page cache may show a page with a part of a write that is being copied into it."""
    for _ in range(5):
        content = os.pread(file.fileno(), SLOT, slot * SLOT)
        if version_in(content, number, slot) >= 0:
            break
        time.sleep(0.01)
    return content


def ring_reader(setup, number, _, counts, stop):
    ring, file = Ring(setup.library, setup.store, LIST), None
    while not stop.is_set():
        try:
            if file is None:
                file = ring.open(f"/ring-{number}", os.O_RDONLY)
        except OSError as error:
            passing(error)
            continue
        slots = [random.randrange(SLOTS) for _ in range(LIST)]
        for slot, (result, content) in zip(slots, ring.run(READ, 0, file, [(s, None) for s in slots])):
            if result == SLOT:
                check_read(content, number, slot)
                counts[0] += 1
            elif result < 0 and -result not in PASSING:
                raise OSError(-result, f"reading by ring: {os.strerror(-result)}")


def mount_reader(setup, number, _, counts, stop):
    while not stop.is_set():
        try:
            with open(f"{setup.mount}/mount-{number}", "rb", buffering=0) as file:
                for _ in range(200):
                    slot = random.randrange(SLOTS)
                    content = read_by_mount(file, number, slot)
                    if len(content) == SLOT:
                        check_read(content, number, slot)
                        counts[0] += 1
        except OSError as error:
            counts[1] += 1
            passing(error)


def command_loop(setup, words, pause, counts, stop):
    """Runs a command of ours again and again; it fails when the agent dies under it."""
    while not stop.is_set():
        done = subprocess.run([setup.penstock, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        counts[0 if done.returncode == 0 else 1] += 1
        if done.returncode == 3:
            raise RuntimeError(f"penstock {words[0]} found damage:\n{done.stdout.decode()}")
        stop.wait(pause)


def importer(setup, _number, _acknowledged, counts, stop):
    command_loop(setup, ["import", "-q", setup.source, f"{setup.store}:/imported"], 1, counts, stop)


def scrubber(setup, _number, _acknowledged, counts, stop):
    command_loop(setup, ["scrub", setup.store], 15, counts, stop)


class Node:
    """The agent, with a supervisor that starts it again whenever it is gone."""

    def __init__(self, setup):
        self.setup, self.process, self.kills = setup, None, 0

    def start(self):
        with open(self.setup.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.setup.penstock, "up", self.setup.store, "--mount", self.setup.mount,
                 "--allow-other", "--capacity", "2G", "--cache", "64M", "--shards", "1"],
                stdout=log, stderr=log)
        self.born = time.monotonic()

    def tick(self):
        if self.process.poll() is not None:
            if self.process.returncode != -signal.SIGKILL:
                raise RuntimeError(f"the agent ended by itself with {self.process.returncode}; "
                                   f"see {self.setup.log}")
            self.start()
        elif time.monotonic() - self.born >= KILL_EVERY:
            self.process.kill()
            self.process.wait()
            self.kills += 1
            self.start()

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            ready = subprocess.run([self.setup.penstock, "status", self.setup.store],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if ready.returncode == 0 and os.path.ismount(self.setup.mount):
                return
            time.sleep(0.2)
        raise RuntimeError(f"the node does not come up; see {self.setup.log}")


def fill(setup, full):
    path = f"{setup.disk}/filler"
    if not full:
        if os.path.exists(path):
            os.unlink(path)
        return
    room = os.statvfs(setup.disk)
    with open(path, "wb") as filler:
        size = room.f_bavail * room.f_frsize
        while size >= 1 << 16:
            try:
                os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, size)
            except OSError:
                size //= 2


def run(setup, minutes):
    roles = [(ring_writer, 1), (ring_writer, 2), (mount_writer, 3), (ring_reader, 1), (mount_reader, 3),
             (importer, 0), (scrubber, 0)]
    stop = multiprocessing.Event()
    node = Node(setup)
    node.start()
    node.wait_until_ready()
    acknowledged = {n: multiprocessing.Array("Q", SLOTS, lock=False) for n in (1, 2, 3)}
    workers = []
    for role, number in roles:
        counts = multiprocessing.Array("Q", 2, lock=False)
        process = multiprocessing.Process(
            target=role, args=(setup, number, acknowledged.get(number), counts, stop))
        process.start()
        workers.append((role.__name__, process, counts))
    samples, began, full = [], time.monotonic(), False
    try:
        while (now := time.monotonic() - began) < minutes * 60:
            node.tick()
            # Not from the beginning: what is killed while it starts is another test.
            want = now % FULL_EVERY >= FULL_EVERY - FULL_FOR
            if want != full:
                fill(setup, want)
                full = want
            # The age at which the agent is looked at is the same in each life.
            if time.monotonic() - node.born > KILL_EVERY - 1.2:
                client = figures_of(workers[0][1].pid)
                figures = figures_of(node.process.pid)
                if figures and client and not full:
                    samples.append((now, figures, client))
            for name, process, _ in workers:
                if not process.is_alive():
                    raise RuntimeError(f"{name} ended: it found what is wrong (above)")
            time.sleep(1)
        fill(setup, False)
    finally:
        stop.set()
        for _, process, _ in workers:
            process.join(90)
            if process.is_alive():
                process.kill()
    for name, _, counts in workers:
        print(f"  {name:14} {counts[0]:9} done {counts[1]:7} refused or interrupted")
    print(f"  the agent was killed {node.kills} times")
    idle = [name for name, _, counts in workers if counts[0] == 0]
    if idle:
        print(f"  never got anything done: {', '.join(idle)}")
    node.process.kill()
    node.process.wait()
    node.start()
    node.wait_until_ready()
    lost = check_all(setup, acknowledged)
    scrubbed = subprocess.run([setup.penstock, "scrub", setup.store]).returncode
    node.process.terminate()
    node.process.wait(60)
    return flat(samples) and lost == 0 and scrubbed == 0 and not idle


def check_all(setup, acknowledged):
    lost = checked = 0
    for number, versions in acknowledged.items():
        kind = "mount" if number == 3 else "ring"
        with open(f"{setup.mount}/{kind}-{number}", "rb", buffering=0) as file:
            for slot in range(SLOTS):
                if versions[slot] == 0:
                    continue
                checked += 1
                found = version_in(os.pread(file.fileno(), SLOT, slot * SLOT), number, slot)
                if found < versions[slot]:
                    lost += 1
                    print(f"lost: {kind} writer {number}, slot {slot}: version {versions[slot]} was "
                          f"acknowledged, {found} is there")
    print(f"  {checked} acknowledged slots, {lost} lost")
    return lost


def flat(samples):
    """Prints the table; whether the last quarter is about what the third was."""
    print("  minute   agent: MiB resident, MiB heap, descriptors   client: MiB resident, descriptors")
    by_minute = {}
    for when, agent, client in samples:
        by_minute.setdefault(int(when // 60), []).append((agent, client))
    for minute, rows in sorted(by_minute.items()):
        middle = [statistics.median(row[0][i] for row in rows) for i in range(3)]
        of_client = [statistics.median(row[1][i] for row in rows) for i in range(3)]
        print(f"  {minute:6} {middle[0] / 1024:14.1f} {middle[1] / 1024:10.1f} {middle[2]:8.0f} "
              f"{of_client[0] / 1024:18.1f} {of_client[2]:12.0f}")
    if len(samples) < 8:
        print("  too few samples to say whether anything grew")
        return True
    half = samples[len(samples) // 2:]
    third, last = half[: len(half) // 2], half[len(half) // 2:]
    good = True
    for name, part, index, slack in (("agent's heap", 1, 1, 16 << 10), ("agent's descriptors", 1, 2, 8),
                                     ("client's memory", 2, 0, 8 << 10), ("client's descriptors", 2, 2, 4)):
        before = statistics.median(sample[part][index] for sample in third)
        after = statistics.median(sample[part][index] for sample in last)
        if after > before * 1.1 + slack:
            print(f"  grew over the last half: the {name}, from {before} to {after}")
            good = False
    return good


class Setup:
    def __init__(self, build, scratch):
        self.penstock = f"{build}/bin/penstock"
        self.library = f"{build}/lib/libpenstock.so"
        self.disk, self.mount = f"{scratch}/disk", f"{scratch}/mount"
        self.store, self.source, self.log = f"{self.disk}/store", f"{scratch}/source", f"{scratch}/log"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--build", type=lambda p: str(pathlib.Path(p).resolve()), required=True)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("soak: root is needed, to make and fill a disk")
    scratch = tempfile.mkdtemp(prefix="penstock-soak-")
    setup = Setup(arguments.build, scratch)
    for directory in (setup.disk, setup.mount, setup.source):
        os.mkdir(directory)
    for i in range(300):
        pathlib.Path(setup.source, f"file-{i}").write_bytes(os.urandom(random.randrange(40_000)))
    with open(f"{scratch}/image", "wb") as image:
        image.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", f"{scratch}/image"], check=True)
    subprocess.run(["mount", "-o", "loop", f"{scratch}/image", setup.disk], check=True)
    good = False
    try:
        print(f"soak: {arguments.minutes:g} minutes", flush=True)
        good = run(setup, arguments.minutes)
    finally:
        subprocess.run([setup.penstock, "down", setup.store], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        subprocess.run(["umount", "-l", setup.mount], stderr=subprocess.DEVNULL)
        if good:
            subprocess.run(["umount", setup.disk])
            shutil.rmtree(scratch)
        else:
            print(f"soak: what it used is kept: {scratch} (umount {setup.disk} before removing it)")
    print("soak: passed" if good else "soak: FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
