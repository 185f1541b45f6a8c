"""What is done with a cluster while it is hurt: files are imported anew, each time with other bytes, and verified."""

import random
import signal
import subprocess
import threading
import time

from cluster_nodes import Failed

MIB = 1 << 20
SIZES = [4096, 100_000, MIB, 2 * MIB + 1, 4 * MIB]
# Between two tries of something that may fail at this moment.
AGAIN_SECONDS = 0.2


class File:
    def __init__(self, name, size):
        self.name = name
        self.size = size
        self.newest = 0
        # What may be in it: one version, or, after an import of which nobody knows how it ended, several.
        self.versions = []
        self.is_used = False


class Files:
    """Which version of which file is in the cluster. An old version that is read there is a wrong one."""

    def __init__(self, folder, count, seed):
        self.folder = folder
        self.seed = seed
        self.lock = threading.Lock()
        sizes = random.Random(seed)
        self.all = [File(f"file{i:03d}", sizes.choice(SIZES)) for i in range(count)]
        folder.mkdir()

    def bytes(self):
        return sum(file.size for file in self.all)

    def path(self, file, version):
        return self.folder / f"{file.name}.{version}"

    def make(self, file):
        """A new version, with bytes that no other has."""
        file.newest += 1
        path = self.path(file, file.newest)
        path.write_bytes(random.Random(f"{self.seed} {file.name} {file.newest}").randbytes(file.size))
        return file.newest

    def keep(self, file, versions):
        for version in set(file.versions) - set(versions):
            self.path(file, version).unlink()
        file.versions = versions

    def take(self, chance, wanted):
        """A file that nobody else uses."""
        with self.lock:
            free = [file for file in self.all if not file.is_used and wanted(file)]
            if not free:
                return None
            file = chance.choice(free)
            file.is_used = True
            return file

    def take_this(self, file):
        """Whether nobody else uses it."""
        with self.lock:
            was_used, file.is_used = file.is_used, True
            return not was_used

    def give_back(self, file):
        with self.lock:
            file.is_used = False


class Work:
    """One kind of operation after the other, in a thread. `may_fail` says whether a failure is to be expected now."""

    def __init__(self, cluster, files, seed, kind, may_fail):
        self.cluster = cluster
        self.files = files
        self.random = random.Random(f"{seed} {kind}")
        self.kind = kind
        self.may_fail = may_fail
        self.lock = threading.Lock()
        self.done = 0
        self.refused = 0
        self.bytes = 0
        self.longest = 0.0
        self.longest_now = 0.0  # since somebody reset it
        self.begun = None
        self.error = ""
        self.stopping = False
        self.thread = threading.Thread(target=self.loop, daemon=True)

    def loop(self):
        try:
            while not self.stopping:
                file = self.files.take(self.random, lambda one: self.kind == "import" or one.versions)
                if file is None:
                    time.sleep(AGAIN_SECONDS)
                    continue
                try:
                    self.one(file)
                finally:
                    self.files.give_back(file)
        except RuntimeError as error:
            self.error = str(error)

    def one(self, file):
        work = self.import_file if self.kind == "import" else self.verify_file
        self.begun = time.monotonic()
        is_done = work(file)
        took = time.monotonic() - self.begun
        self.begun = None
        with self.lock:
            self.longest = max(self.longest, took)
            self.longest_now = max(self.longest_now, took)
            if is_done:
                self.done += 1
                self.bytes += file.size

    def place(self, file):
        return f"{self.cluster.store(self.cluster.first)}:/files/{file.name}"

    def try_run(self, *words):
        """None if it went well, or the failure, where one may be."""
        try:
            self.cluster.run(*words, "-q")
            return None
        except Failed as failure:
            if not self.may_fail(self, failure):
                raise
            return failure

    def import_file(self, file):
        version = self.files.make(file)
        while True:
            failure = self.try_run("import", str(self.files.path(file, version)), self.place(file))
            if failure is None:
                self.files.keep(file, [version])
                return True
            if version not in file.versions:
                file.versions = [*file.versions, version]
            time.sleep(AGAIN_SECONDS)
            if self.stopping or "space" in failure.said:
                self.refused += 1
                return False

    def verify_file(self, file):
        while True:
            found, failure = verify(self, file)
            if found is not None:
                self.files.keep(file, [found])
                return True
            time.sleep(AGAIN_SECONDS)
            if self.stopping and failure is not None:
                return False

    def waits_since(self):
        return self.begun


class Registers:
    """Programs that read and write blocks of one file at once, durably, and check that all they saw could have happened one
    after the other: a process of its own (tests/cluster/registers.cc)."""

    def __init__(self, cluster, program, seed, seconds):
        """No operation may take longer than `seconds`."""
        words = [str(program), cluster.store(cluster.first), "/files/registers", str(seed), str(seconds)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def check(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"registers: {self.process.communicate()[0].strip()}")

    def stop(self, seconds):
        """What they say of all that they did."""
        self.process.send_signal(signal.SIGTERM)
        try:
            said, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as late:
            self.process.kill()
            raise RuntimeError(f"registers: an operation does not end within {seconds} s") from late
        if self.process.returncode != 0:
            raise RuntimeError(f"registers: {said.strip()}")
        return said.strip()


def could_not_compare(failure):
    """Something could not be read, which says nothing of bytes: `verify` counts it among the differences."""
    said = failure.said
    is_gone = ": not in the store: " in said and "No such file" not in said
    return is_gone or any(what in said for what in (": read: ", ": open in the store: ", ": list: "))


def verify(work, file):
    """Which of the versions that may be there is, or why it cannot be said. Bytes of no such version are an error."""
    failure = None
    differences = 0
    # The newest first: most imports went well.
    for version in sorted(file.versions, reverse=True):
        try:
            work.cluster.run("verify", str(work.files.path(file, version)), work.place(file), "-q")
            return version, None
        except Failed as failed:
            if failed.exit_code == 3 and not could_not_compare(failed):
                differences += 1
            elif work.may_fail(work, failed):
                failure = failed
            else:
                raise
    if differences == len(file.versions):
        raise RuntimeError(f"{file.name} has WRONG BYTES: none of the versions {file.versions} that it may have")
    return None, failure
