"""What is done to nodes of a cluster, one thing at a time, and undone again."""

import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from cluster_nodes import DISK_BYTES, Failed

# A node's lease, and the guard for clocks, are over after 5 s: most faults last longer.
FAULT_SECONDS = (6, 9)
# More than a store keeps ready of its disk.
LARGE_BYTES = 256 << 20
# What a program writes durably at a time.
BLOCK_BYTES = 1 << 20
# All of it, on a disk that others use, too.
LARGE_SECONDS = 120
STORM = pathlib.Path(__file__).resolve().parent / "cluster_storm.py"
STORM_CONNECTIONS = 10_000
# Buffers, batches and tables of all loops that connections can fill.
STORM_BYTES = 256 << 20
# How long programs may wait after a fault begins; where the first node was hit, after it has ended, as programs run there.
PAUSE_SECONDS = 10
PAUSE_SECONDS_FIRST = 20


class Trial:
    """Something that takes long, in a thread, so that the story goes on looking meanwhile."""

    def __init__(self, what):
        self.error = None
        self.thread = threading.Thread(target=self.run, args=(what,), daemon=True)
        self.thread.start()

    def run(self, what):
        try:
            what()
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            self.error = error

    def has_ended(self):
        """Raises what went wrong with it."""
        if self.thread.is_alive():
            return False
        if self.error is not None:
            raise RuntimeError(str(self.error)) from self.error
        return True


class Fault:
    """`node` is hurt from begin() to end(), which follow one another; `other` where two are."""

    name = ""
    needs = ""  # "network", "disk", or "nodes": more than there are copies
    spares_first = False
    said = ""  # of what happened, for people
    verifies_all = False  # when it is over every file is verified, before the next

    def __init__(self, cluster, chance):
        self.cluster = cluster
        nodes = cluster.nodes[1:] if self.spares_first else cluster.nodes
        self.node = chance.choice(nodes)
        self.other = chance.choice([node for node in cluster.nodes if node != self.node])
        self.seconds = chance.uniform(*FAULT_SECONDS)
        self.choose(chance)

    def choose(self, chance):
        pass

    def hits_first(self):
        return self.node == self.cluster.first

    def text(self):
        return f"{self.name} node {self.node}"

    def begin(self):
        raise NotImplementedError

    def end(self):
        raise NotImplementedError

    def may_end(self):
        return True

    def abandon(self):
        """Ends what runs for it, when something else has failed."""

    def refuses(self, failure):
        """Whether an operation may fail like that while this lasts, and until all is well again."""
        del failure
        return False


class Kill(Fault):
    name = "kill"

    def begin(self):
        self.cluster.kill(self.node)

    def end(self):
        self.cluster.restart(self.node)


class KillAll(Fault):
    """Every process at once, so that nothing but the disks knows what was acknowledged."""

    name = "kill-all"
    verifies_all = True

    def choose(self, chance):
        self.seconds = chance.uniform(0, 1)

    def hits_first(self):
        return True

    def text(self):
        return "kill all nodes"

    def begin(self):
        for node in self.cluster.nodes:
            self.cluster.kill(node)

    def end(self):
        self.cluster.restart_all()


class Pause(Fault):
    name = "pause"

    def begin(self):
        self.cluster.stop_process(self.node)

    def end(self):
        self.cluster.continue_process(self.node)


class Drop(Fault):
    """Packets are lost, by rules for one node or two."""

    needs = "network"

    def rules(self):
        raise NotImplementedError

    def begin(self):
        self.cluster.network.drop(self.node, self.rules())

    def end(self):
        self.cluster.network.drop_nothing(self.node)


class Cut(Drop):
    name = "cut"

    def rules(self):
        return [("in", 'iifname "eth0"'), ("out", 'oifname "eth0"')]


class Deaf(Drop):
    name = "deaf"

    def rules(self):
        return [("in", 'iifname "eth0"')]


class Mute(Drop):
    name = "mute"

    def rules(self):
        return [("out", 'oifname "eth0"')]


class Apart(Drop):
    name = "apart"

    def text(self):
        return f"apart nodes {self.node} and {self.other}"

    def hits_first(self):
        return self.cluster.first in (self.node, self.other)

    def rules(self):
        other = self.cluster.network.address(self.other)
        return [("in", f"ip saddr {other}"), ("out", f"ip daddr {other}")]


class Lossy(Drop):
    name = "lossy"

    def choose(self, chance):
        self.percent = chance.randint(1, 15)

    def text(self):
        return f"lossy node {self.node}: {self.percent} % each way"

    def rules(self):
        lost = f"numgen random mod 100 < {self.percent}"
        return [("in", f'iifname "eth0" {lost}'), ("out", f'oifname "eth0" {lost}')]


class Slow(Fault):
    name = "slow"
    needs = "network"

    def choose(self, chance):
        self.megabits = chance.choice([50, 100, 200])

    def text(self):
        return f"slow node {self.node}: {self.megabits} Mbit/s"

    def begin(self):
        self.cluster.network.slow_down(self.node, self.megabits)

    def end(self):
        self.cluster.network.speed_up(self.node)


class Storm(Fault):
    """Another machine opens thousands of connections, and says anything on them. The node's memory is bounded, and it serves."""

    name = "storm"
    attacker = None

    def hits_first(self):
        return False

    def begin(self):
        cluster = self.cluster
        token, address = cluster.ask("cluster", cluster.store(cluster.first))["invitation"].split("@")
        host, port = address.rsplit(":", 1) if self.node == cluster.first else cluster.network.listen(self.node).split(":")
        self.before = self.most = resident_bytes(cluster.pids[self.node])
        target = self.target()
        self.attacker = subprocess.Popen(
            [*cluster.network.prefix(self.other), sys.executable, str(STORM), host, port, token, str(self.node), str(target), str(STORM_CONNECTIONS)],
            stdout=subprocess.PIPE, text=True)

    def target(self):
        nodes = self.cluster.ask("nodes", self.cluster.store(self.cluster.first))["nodes"]
        return next(node["targets"][0]["target"] for node in nodes if node["node"] == self.node)

    def may_end(self):
        self.most = max(self.most, resident_bytes(self.cluster.pids[self.node]))
        return True

    def end(self):
        self.may_end()
        took = self.most - self.before
        self.attacker.send_signal(signal.SIGTERM)
        told, _ = self.attacker.communicate(timeout=LARGE_SECONDS)
        if self.attacker.returncode != 0:
            raise RuntimeError(f"{STORM} failed")
        self.said = f"{told.strip()}; the node's memory grew by {max(0, took) >> 20} MiB"
        if took > STORM_BYTES:
            raise RuntimeError(f"node {self.node}: {self.said}")

    def abandon(self):
        if self.attacker is not None:
            self.attacker.kill()
            self.attacker.wait()


def resident_bytes(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class SlowDisk(Fault):
    """Each read, write and sync of a node's disk takes longer."""

    name = "slow-disk"
    needs = "slow disk"

    def choose(self, chance):
        self.node = chance.choice([node for node in self.cluster.nodes if self.cluster.disks.can_be_slow(node)])
        self.milliseconds = chance.choice([2, 10, 50])

    def text(self):
        return f"slow disk of node {self.node}: {self.milliseconds} ms"

    def begin(self):
        self.cluster.disks.delay(self.node, self.milliseconds)

    def end(self):
        self.cluster.disks.delay(self.node, 0)

    def abandon(self):
        self.end()


class Stall(SlowDisk):
    """Nothing that a node asks of its disk ends."""

    name = "stall"

    def choose(self, chance):
        super().choose(chance)
        self.milliseconds = 1_000_000

    def text(self):
        return f"stalled disk of node {self.node}"


class Full(Fault):
    """Nothing more fits on a node's disk: what would be written there is refused, and nothing is lost."""

    name = "full"
    needs = "disk"
    spares_first = True

    def begin(self):
        self.cluster.disks.fill(self.node)
        self.trial = Trial(self.import_large)

    def import_large(self):
        """Something that does not fit into what the store has is refused, or finds room; nothing waits for ever."""
        large = self.cluster.scratch / "large"
        large.write_bytes(bytes(range(256)) * (LARGE_BYTES // 256))
        try:
            store = self.cluster.store(self.cluster.first)
            self.cluster.run("import", str(large), f"{store}:/large", "-q", timeout=LARGE_SECONDS)
        except Failed as failure:
            if not self.refuses(failure):
                raise

    def may_end(self):
        return self.trial.has_ended()

    def end(self):
        self.cluster.disks.free(self.node)

    def refuses(self, failure):
        return "space" in failure.said


class FullFirst(Full):
    """The same of the node with the names and the controller's records: names may be refused for want of space, too."""

    name = "full-first"
    spares_first = False

    def choose(self, chance):
        self.node = self.cluster.first

    def hits_first(self):
        """Programs there go on, but for what is refused."""
        return False


class FullAll(Fault):
    """No disk has room. A program on a mount is told so, by ENOSPC and nothing else, and goes on when there is room again."""

    name = "full-all"
    needs = "disk"

    def text(self):
        return "full disks of all nodes"

    def hits_first(self):
        return False

    def begin(self):
        self.place = self.cluster.scratch / "mount"
        self.seen_at = self.cluster.mount(self.place)
        for node in self.cluster.nodes:
            self.cluster.disks.fill(node)
        self.trial = Trial(self.write)

    def write(self):
        blocks = write_until_full(self.seen_at)
        self.said = f"a program wrote {blocks} MiB, and then was told that there is no space"

    def may_end(self):
        return self.trial.has_ended()

    def end(self):
        for node in self.cluster.nodes:
            self.cluster.disks.free(node)
        write_again(self.seen_at)
        self.cluster.unmount(self.place)

    def refuses(self, failure):
        return "space" in failure.said


def write_all(path, block, count):
    """Durably. How many blocks there was room for."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        for at in range(count):
            try:
                done = os.write(file, block)
                os.fsync(file)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise Failed.of(f"writing {path} on full disks", error) from error
                return at
            if done != len(block):
                return at
        return count
    finally:
        with contextlib.suppress(OSError):
            os.close(file)


def write_until_full(place):
    """How many blocks there was room for. What was acknowledged before is there, and the file can be removed."""
    block = bytes(range(256)) * (BLOCK_BYTES // 256)
    path = place / "until-full"
    try:
        written = write_all(path, block, DISK_BYTES // BLOCK_BYTES)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return 0  # not even a name
        raise Failed.of(f"making {path} on full disks", error) from error
    found = path.read_bytes()
    if found[:written * BLOCK_BYTES] != block * written:
        raise Failed.of(f"{path} has WRONG BYTES", "what was written durably before the disks were full is not there")
    if written == DISK_BYTES // BLOCK_BYTES:
        raise Failed.of(f"writing {path}", "there is room for more than the disks have")
    os.unlink(path)
    return written


def write_again(place):
    """Within the time that programs may wait at all."""
    block = b"room" * (BLOCK_BYTES // 4)
    path = place / "again"
    deadline = time.monotonic() + PAUSE_SECONDS_FIRST
    while True:
        with contextlib.suppress(OSError):
            if write_all(path, block, 1) == 1 and path.read_bytes() == block:
                os.unlink(path)
                return
        if time.monotonic() > deadline:
            raise Failed.of(f"writing {path}", "there is room again, and the program does not go on")
        time.sleep(0.2)


class Drain(Fault):
    """No fault: all that a node has moves elsewhere, and back."""

    name = "drain"
    needs = "nodes"
    spares_first = True

    def begin(self):
        self.cluster.run("drain", self.cluster.store(self.cluster.first), str(self.node))

    def may_end(self):
        nodes = self.cluster.ask("nodes", self.cluster.store(self.cluster.first))["nodes"]
        return all(node["chains_left"] == 0 for node in nodes if node["node"] == self.node)

    def end(self):
        self.cluster.run("drain", "--undo", self.cluster.store(self.cluster.first), str(self.node))


class Database(Fault):
    """The server with the names crashes, and comes back: nobody can change or look up names meanwhile."""

    name = "database"
    needs = "database"

    def text(self):
        return "crash the database with the names"

    def hits_first(self):
        return True

    def begin(self):
        self.cluster.database.crash()

    def end(self):
        self.cluster.database.start()


ALL = {
    fault.name: fault
    for fault in (
        Kill, KillAll, Pause, Cut, Deaf, Mute, Apart, Lossy, Slow, Storm, SlowDisk, Stall, Full, FullFirst, FullAll, Drain, Database,
    )
}
