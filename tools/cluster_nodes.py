"""Nodes of a cluster on this machine: their network, their disks and their processes."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

# A question to a node that does not answer, as it is stopped, say.
ASK_SECONDS = 10
DISK_BYTES = 2 << 30


def why_not(error):
    output = getattr(error, "stderr", b"") or b""
    return output.decode(errors="replace").strip() or str(error)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Network:
    """Where each node listens, and what its commands are run by: with root's rights a network namespace each."""

    def __init__(self, nodes):
        self.tag = f"pnst{os.getpid() % 100000}"
        self.nodes = nodes
        self.made = False
        self.ports = {node: free_port() for node in nodes}  # on loopback
        self.why = ""

    def make_if_possible(self):
        try:
            self.make()
            self.made = True
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            self.why = why_not(error)

    def make(self):
        if os.geteuid() != 0:
            raise OSError("namespaces need root's rights")
        self.ip("netns", "add", f"{self.tag}s")
        self.within("s", "link", "add", "bridge", "type", "bridge")
        self.within("s", "link", "set", "bridge", "up")
        for node in self.nodes:
            self.ip("netns", "add", f"{self.tag}n{node}")
            self.within("s", "link", "add", f"to{node}", "type", "veth", "peer", "name", "eth0", "netns",
                        f"{self.tag}n{node}")
            self.within("s", "link", "set", f"to{node}", "master", "bridge", "up")
            self.within(f"n{node}", "addr", "add", f"10.77.0.{node}/24", "dev", "eth0")
            self.within(f"n{node}", "link", "set", "eth0", "up")
            self.within(f"n{node}", "link", "set", "lo", "up")

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def within(self, which, *words):
        self.ip("-n", f"{self.tag}{which}", *words)

    def command(self, which, *words, text=None):
        """Runs something in a namespace: "s" has the bridge, "n2" is node 2's."""
        subprocess.run(["ip", "netns", "exec", f"{self.tag}{which}", *words], check=True, capture_output=True,
                       input=text, text=True)

    def remove(self):
        for which in ["s", *(f"n{node}" for node in self.nodes)]:
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "del", f"{self.tag}{which}"], capture_output=True, check=False)

    def address(self, node):
        return f"10.77.0.{node}"

    def listen(self, node):
        return f"{self.address(node)}:9180" if self.made else f"127.0.0.1:{self.ports[node]}"

    def prefix(self, node):
        return ["ip", "netns", "exec", f"{self.tag}n{node}"] if self.made else []

    # Faults. Each is undone by its opposite, and by remove().

    def drop(self, node, rules):
        """Packets of a node that match are lost. A rule: "in" or "out", and what nft says of them."""
        lines = ["table inet fault {"]
        for hook, name in (("input", "in"), ("output", "out")):
            lines.append(f"chain {name} {{ type filter hook {hook} priority 0;")
            lines += [f"{what} drop" for way, what in rules if way == name]
            lines.append("}")
        lines.append("}")
        self.command(f"n{node}", "nft", "-f", "-", text="\n".join(lines) + "\n")

    def drop_nothing(self, node):
        self.command(f"n{node}", "nft", "delete", "table", "inet", "fault")

    def slow_down(self, node, megabits):
        limit = ["root", "tbf", "rate", f"{megabits}mbit", "burst", "256k", "latency", "100ms"]
        self.command(f"n{node}", "tc", "qdisc", "add", "dev", "eth0", *limit)
        self.command("s", "tc", "qdisc", "add", "dev", f"to{node}", *limit)

    def speed_up(self, node):
        self.command(f"n{node}", "tc", "qdisc", "del", "dev", "eth0", "root")
        self.command("s", "tc", "qdisc", "del", "dev", f"to{node}", "root")


class Disks:
    """A small file system for each node, so that one can become full. Made where that is possible. With `slow_disk`, a
    program, they are seen through a file system that can be made slow."""

    def __init__(self, scratch, slow_disk=None):
        self.scratch = scratch
        self.mounted = []
        self.slow_disk = slow_disk
        self.slow = []
        self.why = ""

    def make_if_possible(self, nodes):
        try:
            for node in nodes:
                self.make(node)
        except (OSError, subprocess.CalledProcessError) as error:
            self.why = why_not(error)
            return self.remove()
        try:
            # The last one stays as it is, so that there is one that nothing stands before.
            for node in nodes[:-1] if self.slow_disk is not None else []:
                self.make_slow(node)
        except (OSError, subprocess.CalledProcessError) as error:
            self.why = why_not(error)
            self.remove_slow()
        return None

    def make(self, node):
        image, folder = self.scratch / f"disk{node}", self.scratch / f"on-disk{node}"
        with open(image, "wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0", str(image)], check=True,
                       capture_output=True)
        folder.mkdir()
        subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True, capture_output=True)
        self.mounted.append(folder)

    def make_slow(self, node):
        folder, seen = self.scratch / f"on-disk{node}", self.scratch / f"seen-disk{node}"
        seen.mkdir()
        subprocess.run([str(self.slow_disk), str(folder), str(seen), str(self.delay_file(node))], check=True, capture_output=True)
        self.slow.append(seen)

    def can_be_slow(self, node):
        return self.scratch / f"seen-disk{node}" in self.slow

    def folder(self, node):
        """Where the node sees it."""
        for folder in (self.scratch / f"seen-disk{node}", self.scratch / f"on-disk{node}"):
            if folder in self.slow or folder in self.mounted:
                return folder
        return None

    def delay_file(self, node):
        return self.scratch / f"delay{node}"

    def delay(self, node, milliseconds):
        """Takes as long as the file system takes to see it."""
        new = self.scratch / f"delay{node}.new"
        new.write_text(f"{milliseconds}\n", encoding="ascii")
        new.rename(self.delay_file(node))

    def fill(self, node):
        """Leaves nothing."""
        folder = self.scratch / f"on-disk{node}"
        with open(folder / "filler", "wb") as file:
            while True:
                stat = os.statvfs(folder)
                free = stat.f_bavail * stat.f_frsize
                if free < (64 << 10):
                    return
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free)
                file.seek(0, os.SEEK_END)
                if os.statvfs(folder).f_bavail * stat.f_frsize >= free:
                    return

    def free(self, node):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.scratch / f"on-disk{node}" / "filler")

    def remove(self):
        self.remove_slow()
        for folder in self.mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        self.mounted = []

    def remove_slow(self):
        for seen in self.slow:
            subprocess.run(["umount", "-l", str(seen)], capture_output=True, check=False)
        self.slow = []


class Failed(RuntimeError):
    """A command of penstock said no."""

    def __init__(self, words, done):
        super().__init__(f"penstock {' '.join(words)}: {done.stderr.strip()}")
        self.exit_code = done.returncode
        self.said = done.stderr

    @classmethod
    def of(cls, what, why):
        """Something else than a command."""
        failure = cls.__new__(cls)
        RuntimeError.__init__(failure, f"{what}: {why}")
        failure.exit_code, failure.said = 1, str(why)
        return failure


class Cluster:
    def __init__(self, program, scratch, network, disks, nodes):
        self.program = str(pathlib.Path(program).resolve())
        self.scratch = scratch
        self.network = network
        self.disks = disks
        self.nodes = nodes
        self.first = nodes[0]
        self.pids = {}
        self.stopped = set()
        self.has_mounts = False  # every node mounts the files
        self.database = None  # that has the names, if it is not the first node's own

    def program_of(self, node):
        """What the node runs, and its commands are."""
        del node
        return self.program

    def options_of(self, node):
        """More options for its process."""
        del node
        return []

    def all_options_of(self, node):
        if not self.has_mounts:
            return self.options_of(node)
        place = self.mount_place(node)
        place.mkdir(exist_ok=True)
        return ["--mount", str(place), *self.options_of(node)]

    def mount_place(self, node):
        return self.scratch / f"mount{node}"

    def mount_of(self, node):
        """Where the files of that node's mount are seen from here, or None: in a namespace it has mounts of its own."""
        pid = self.pids.get(node)
        if pid is None:
            return None
        place = self.mount_place(node)
        return pathlib.Path(f"/proc/{pid}/root{place}") if self.network.made else place

    def has_mount(self, node):
        place = self.mount_of(node)
        return place is not None and os.path.ismount(place)

    def forget_mount(self, node):
        """Of a process that was killed. Those of a namespace have gone with it."""
        if self.has_mounts and not self.network.made:
            words = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            subprocess.run([*words, str(self.mount_place(node))], capture_output=True, check=False)

    def watch(self):
        """Once a second."""

    def store(self, node):
        return str((self.disks.folder(node) or self.scratch) / f"node{node}")

    def run(self, *words, node=None, timeout=None):
        prefix = self.network.prefix(node) if node else []
        done = subprocess.run([*prefix, self.program_of(node or self.first), *words], capture_output=True, text=True,
                              check=False, timeout=timeout)
        if done.returncode != 0:
            raise Failed(words, done)
        return done.stdout

    def ask(self, *words):
        return json.loads(self.run(*words, "--json", timeout=ASK_SECONDS))

    def start(self):
        listen = ["--listen", self.network.listen(self.first)]
        names = ["--kv", self.database.url] if self.database is not None else []
        self.run("up", self.store(self.first), *listen, *names, "-b", "--cache", "0", *self.all_options_of(self.first),
                 node=self.first)
        self.pids[self.first] = self.ask("status", self.store(self.first))["pid"]
        for node in self.nodes[1:]:
            self.join(node)

    def join(self, node):
        invitation = self.ask("token", "create", self.store(self.first))["invitation"]
        self.run("join", invitation, self.store(node), "--listen", self.network.listen(node), "-b", *self.all_options_of(node),
                 node=node)
        self.pids[node] = self.ask("status", self.store(node))["pid"]

    def kill(self, node):
        os.kill(self.pids.pop(node), signal.SIGKILL)

    def restart_all(self):
        """At once, as a node waits for the controller, and the first one for copies of the others."""
        failures = []

        def restart(node):
            try:
                self.restart(node)
            except (RuntimeError, subprocess.SubprocessError) as failure:
                failures.append(failure)

        threads = [threading.Thread(target=restart, args=(node,)) for node in self.nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def mount(self, place):
        """The file system at the first node, and where it is seen from here: that node has mounts of its own."""
        place.mkdir(exist_ok=True)
        self.run("mount", self.store(self.first), str(place))
        return pathlib.Path(f"/proc/{self.pids[self.first]}/root{place}")

    def unmount(self, place):
        subprocess.run(["nsenter", "-t", str(self.pids[self.first]), "-m", self.program_of(self.first), "unmount", str(place)],
                       check=True, capture_output=True)

    def restart(self, node):
        cache = ["--cache", "0"] if node == self.first else []
        self.forget_mount(node)
        self.run("up", self.store(node), "-b", *cache, *self.all_options_of(node), node=node)
        self.pids[node] = self.ask("status", self.store(node))["pid"]

    def stop_process(self, node):
        os.kill(self.pids[node], signal.SIGSTOP)
        self.stopped.add(node)

    def continue_process(self, node):
        os.kill(self.pids[node], signal.SIGCONT)
        self.stopped.discard(node)

    def logs(self):
        return [pathlib.Path(self.store(node)) / "agent.log" for node in self.nodes]

    def stop(self):
        for node in list(self.stopped):
            with contextlib.suppress(OSError, KeyError):
                self.continue_process(node)
        for node in reversed(self.nodes):
            if node not in self.pids:
                continue
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                self.run("down", self.store(node), timeout=60)
                self.pids.pop(node)
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for node in self.nodes:
            self.forget_mount(node)
