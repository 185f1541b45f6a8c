"""How fast a node that was away is repaired, beside what its disk and link can do, and what clients keep meanwhile."""

import os
import random
import subprocess
import threading
import time

from cluster_work import MIB

FILE_BYTES = 64 * MIB
# Clients are measured alone for so long.
ALONE_SECONDS = 10
REPAIR_SECONDS = 900
# The bar: repair, and clients, keep this part of what they could do alone.
BAR = 0.5


class Clients:
    """Import and verify files of their own, two at a time; bytes that were moved are counted."""

    def __init__(self, cluster, scratch):
        self.cluster = cluster
        self.source = scratch / "of-clients"
        self.source.mkdir()
        self.stopping = False
        self.lock = threading.Lock()
        self.bytes = 0
        self.error = None
        self.threads = []

    def start(self):
        for number in range(2):
            file = self.source / f"client{number}"
            file.write_bytes(random.Random(number).randbytes(16 * MIB))
            thread = threading.Thread(target=self.loop, args=(file,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def loop(self, file):
        place = f"{self.cluster.store(self.cluster.first)}:/{file.name}"
        try:
            while not self.stopping:
                for kind in ("import", "verify"):
                    self.cluster.run(kind, str(file), place, "-q")
                    with self.lock:
                        self.bytes += file.stat().st_size
        except RuntimeError as error:
            self.error = error

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        if self.error is not None:
            raise self.error


def copy_rate(folder, size):
    """What the disk does when it is read and written at once, as the nodes share it."""
    source, copy = folder / "to-copy", folder / "copy"
    subprocess.run(["dd", "if=/dev/urandom", f"of={source}", "bs=1M", f"count={size // MIB}", "conv=fsync"], check=True,
                   capture_output=True)
    begun = time.monotonic()
    subprocess.run(["dd", f"if={source}", f"of={copy}", "bs=1M", "iflag=direct", "oflag=direct", "conv=fsync"], check=True,
                   capture_output=True)
    took = time.monotonic() - begun
    for file in (source, copy):
        os.unlink(file)
    return size / took


def health(cluster):
    return cluster.ask("cluster", cluster.store(cluster.first))


def await_health(cluster, holds, what):
    deadline = time.monotonic() + REPAIR_SECONDS
    while not holds(health(cluster)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not after {REPAIR_SECONDS} s")
        time.sleep(0.1)


def lack(cluster, node, source, name):
    """What is imported while a node is away, it lacks."""
    cluster.kill(node)
    await_health(cluster, lambda one: one["partial"] == one["chains"], "chains go on without a node")
    cluster.run("import", str(source), f"{cluster.store(cluster.first)}:/{name}", "-q")


def repair(cluster, node, size):
    cluster.restart(node)
    begun = time.monotonic()
    await_health(cluster, lambda one: one["whole"] == one["chains"], "repair")
    return size / (time.monotonic() - begun)


def tell(what, rate, reference, bar):
    ratio = rate / reference
    verdict = "" if bar is None else f"  bar {bar}: {'kept' if ratio >= bar else 'NOT KEPT'}"
    print(f"{what:40s} {rate / MIB:8.0f} MiB/s   {ratio:5.2f}{verdict}")


def measure_repair(cluster, scratch, options):
    files = max(1, int(options.gib * 1024) // (FILE_BYTES // MIB))
    size = files * FILE_BYTES
    reference, slower = copy_rate(scratch, min(size, 1024 * MIB)), "disk"
    if options.link:
        if not cluster.network.made:
            raise RuntimeError("links are limited between network namespaces only, which need root's rights")
        for node in cluster.nodes:
            cluster.network.slow_down(node, options.link)
        # A twentieth is for headers.
        link = options.link * 1_000_000 / 8 * 0.95
        if link < reference:
            reference, slower = link, "link"
    print(f"the slower is the {slower}: {reference / MIB:.0f} MiB/s; {size / MIB:.0f} MiB are to be repaired")
    source = scratch / "to-repair"
    source.mkdir()
    for i in range(files):
        (source / f"file{i:03d}").write_bytes(random.Random(i).randbytes(FILE_BYTES))
    node = cluster.nodes[-1]
    lack(cluster, node, source, "alone")
    tell("repair, no clients", repair(cluster, node, size), reference, None)
    lack(cluster, node, source, "with-clients")
    clients = Clients(cluster, scratch)
    clients.start()
    time.sleep(ALONE_SECONDS / 5)
    before, begun = clients.bytes, time.monotonic()
    time.sleep(ALONE_SECONDS)
    alone = (clients.bytes - before) / (time.monotonic() - begun)
    before, begun = clients.bytes, time.monotonic()
    rate = repair(cluster, node, size)
    meanwhile = (clients.bytes - before) / (time.monotonic() - begun)
    clients.stop()
    tell("repair beside clients", rate, reference, BAR)
    tell("clients beside repair, of what they had", meanwhile, alone, BAR)
    for name in ("alone", "with-clients"):
        cluster.run("verify", str(source), f"{cluster.store(cluster.first)}:/{name}", "-q")
    print("every byte is equal")
