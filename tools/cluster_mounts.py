"""Programs on the mounts of all nodes of a cluster, beside everything else: what one node wrote is what another reads.

They are a process of their own (cluster_mounts.py STATE SEED SECONDS): a child of one with open files on a mount waits for the
node of that mount, which may be the one that the child is to bring back. STATE is a file that says which mounts there are."""

import contextlib
import errno
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

BLOCK = 4096
# Written at once; two in one file, of different numbers, are told apart.
BLOCKS = (1, 4, 64)
FILES = 48
PROGRAMS = 4
# What a program may be told while a node is hurt, or until all is well again.
TOLD = {errno.EIO, errno.ENOTCONN, errno.ECONNABORTED, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV}
# The mount of a node whose process is gone is not there, in namespaces.
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.EACCES}
# A process that is stopped, and has lost its lease, gives what it had before no answer for so long after that.
SETTLE_SECONDS = 15


def block_of(name, version):
    line = f"{name} version {version}\n".encode()
    return (line * (BLOCK // len(line) + 1))[:BLOCK]


class Lost(Exception):
    """The node that was to do it is not there."""


class Kept:
    """A file that one program at a time uses."""

    def __init__(self, name, blocks):
        self.name = name
        self.blocks = blocks
        self.newest = 0
        self.versions = []  # which may be in each block; empty: the file may not be there
        self.may_be_missing = True
        self.lock = threading.Lock()


class Mounts:
    """The process, as the story of a cluster sees it."""

    def __init__(self, cluster, seed, seconds):
        """No operation may take longer than `seconds`."""
        self.cluster = cluster
        self.seconds = seconds
        self.state = cluster.scratch / "mounts.json"
        with contextlib.suppress(FileExistsError):
            (cluster.mount_of(cluster.first) / "mounts").mkdir()
        self.tell(False)
        self.process = subprocess.Popen([sys.executable, __file__, str(self.state), str(seed), str(seconds)],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def tell(self, is_hurt):
        """Whether some node is, and where the others are."""
        mounts = {node: str(place) for node in self.cluster.nodes if (place := self.cluster.mount_of(node)) is not None}
        fresh = self.state.with_suffix(".new")
        fresh.write_text(json.dumps({"hurt": is_hurt, "mounts": mounts}), encoding="ascii")
        fresh.rename(self.state)

    def check(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"mounts: {self.process.communicate()[0].strip()}")

    def stop(self):
        """What was seen of all that they did."""
        self.tell(False)
        self.process.send_signal(signal.SIGTERM)
        try:
            said, _ = self.process.communicate(timeout=3 * self.seconds)
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"mounts: an operation does not end within {self.seconds} s") from late
        if self.process.returncode != 0:
            raise RuntimeError(f"mounts: {said.strip()}")
        return said.strip()

    def abandon(self):
        if self.process.poll() is None:
            self.process.kill()


class Programs:
    def __init__(self, state, seed):
        self.state = state
        self.files = [Kept(f"kept{i:02d}", BLOCKS[i % len(BLOCKS)]) for i in range(FILES)]
        self.lock = threading.Lock()
        self.writes = self.reads = self.told = self.across = 0
        self.longest = 0.0
        self.nodes = set()
        self.error = ""
        self.stopping = False
        self.last_trouble = 0.0
        self.threads = [threading.Thread(target=self.loop, args=(random.Random(f"{seed} mounts {i}"),), daemon=True)
                        for i in range(PROGRAMS)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def look(self):
        return json.loads(self.state.read_text(encoding="ascii"))

    def mount_of(self, node):
        place = self.look()["mounts"].get(node)
        return None if place is None else pathlib.Path(place)

    def stop(self, seconds):
        """What was seen of all that they did."""
        self.stopping = True
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(end - time.monotonic(), 0))
            if thread.is_alive():
                raise RuntimeError(f"an operation does not end within {seconds} s")
        for file in self.files:
            for node in self.look()["mounts"]:
                if not self.error:
                    self.attempt(lambda file=file, node=node: self.read(file, node), must=True)
        if self.error:
            raise RuntimeError(self.error)
        return (f"on the mounts of {len(self.nodes)} nodes: {self.writes} durable writes and {self.reads} reads, {self.across} of "
                f"what another node had written last; {self.told} were told of a failure; the longest took {self.longest:.1f} s")

    def loop(self, chance):
        try:
            self.work(chance)
        except Exception as error:  # pylint: disable=broad-except  # a program that is gone must be noticed
            self.error = self.error or repr(error)

    def work(self, chance):
        while not self.stopping and not self.error:
            file = chance.choice(self.files)
            if not file.lock.acquire(blocking=False):
                continue
            try:
                mounts = sorted(self.look()["mounts"])
                if not mounts:  # all nodes are killed
                    time.sleep(0.2)
                    continue
                node = chance.choice(mounts)
                what = self.read if chance.random() < 0.6 else (self.rewrite if chance.random() < 0.5 else self.replace)
                begun = time.monotonic()
                self.attempt(lambda: what(file, node))
                self.longest = max(self.longest, time.monotonic() - begun)
            finally:
                file.lock.release()

    def attempt(self, what, must=False):
        begun = time.monotonic()
        try:
            what()
        except Lost:
            time.sleep(0.2)
        except OSError as error:
            with self.lock:
                self.told += 1
            if must or not self.expected(error, begun):
                self.error = f"{error} where nothing is wrong"
            time.sleep(0.2)
        except RuntimeError as error:
            self.error = str(error)

    def expected(self, error, begun):
        """Whether something was wrong while it ran, or shortly before."""
        now = time.monotonic()
        if self.look()["hurt"]:
            self.last_trouble = now
        full = error.errno == errno.ENOSPC
        return error.errno in TOLD | GONE or full if self.last_trouble >= begun - SETTLE_SECONDS else False

    def path(self, node, name):
        place = self.mount_of(node)
        if place is None:
            raise Lost
        return place / "mounts" / name

    def has_mount(self, node):
        place = self.mount_of(node)
        return place is not None and os.path.ismount(place)

    def note(self, file, node, wrote):
        with self.lock:
            self.nodes.add(node)
            if wrote:
                self.writes += 1
                file.writer = node
            else:
                self.reads += 1
                self.across += getattr(file, "writer", node) != node

    def new_version(self, file):
        """Until it is known how this ends, both may be there."""
        file.newest += 1
        if file.newest not in file.versions:
            file.versions.append(file.newest)
        return file.newest

    def rewrite(self, file, node):
        """In place, all of it."""
        if file.may_be_missing:
            return self.replace(file, node)
        path = self.path(node, file.name)
        fd = os.open(path, os.O_WRONLY)
        version = self.new_version(file)
        try:
            data = block_of(file.name, version) * file.blocks
            if os.write(fd, data) != len(data):
                raise OSError(errno.EIO, "a short write")
            os.fsync(fd)
        finally:
            os.close(fd)
        file.versions = [version]
        return self.note(file, node, True)

    def replace(self, file, node):
        """A new file in its place."""
        path = self.path(node, file.name)
        version = self.new_version(file)
        fresh = path.with_name(f"{file.name}.new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(fd, block_of(file.name, version) * file.blocks)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        file.versions, file.may_be_missing = [version], False
        return self.note(file, node, True)

    def read(self, file, node):
        path = self.path(node, file.name)
        try:
            with open(path, "rb", buffering=0) as opened:
                data = opened.read(file.blocks * BLOCK + 1) or b""
        except FileNotFoundError:
            if file.may_be_missing or not self.has_mount(node):
                return
            raise RuntimeError(f"{path} is GONE on node {node}") from None
        if not data and file.may_be_missing:
            return
        may = {block_of(file.name, version) for version in file.versions}
        blocks = [data[at:at + BLOCK] for at in range(0, len(data), BLOCK)]
        if len(blocks) != file.blocks or any(block not in may for block in blocks):
            seen = {bytes(block[:40]) for block in blocks if block not in may}
            raise RuntimeError(f"{path} has WRONG BYTES on node {node}: {len(data)} of them, {seen}, where versions "
                               f"{file.versions} may be")
        self.note(file, node, False)


def main():
    programs = Programs(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
    seconds = float(sys.argv[3])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    programs.start()
    while not ended.wait(0.2):
        # Nobody is there to be told.
        if os.getppid() == 1:
            os._exit(1)
        if programs.error:
            break
    try:
        print(programs.stop(seconds), flush=True)
    except RuntimeError as error:
        print(error, flush=True)
        # A thread may be in the middle of something that never ends.
        os._exit(1)


if __name__ == "__main__":
    main()
