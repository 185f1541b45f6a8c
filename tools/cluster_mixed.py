"""A cluster of two releases side by side: this one, and a build that plays the next, whose nodes say more to one another
(decision 0055). Each process that comes back is of the one or of the other."""

import http.client
import pathlib
import random
import socket

from cluster_nodes import Cluster

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = {release: ROOT / f"build/{preset}/bin/penstock" for release, preset in (("this", "dev"), ("next", "next"))}
# In the beginning: two of each, the controller and the client of the next release.
FIRST_RELEASES = ("next", "this", "this", "next")
# What nodes of the next release count: how nodes of the next release call them, and how those of this one do.
COUNTED = {
    "penstock_next_chain_with_field_total": "calls to replicas with the next release's field",
    "penstock_next_chain_loads_total": "of these, of its new kind",
    "penstock_next_chain_older_total": "calls to its replicas as this release says them",
    "penstock_next_heartbeats_with_field_total": "heartbeats with its field",
    "penstock_next_heartbeats_without_field_total": "heartbeats as this release says them",
}
# A call in the next version that leaves out what the next version has.
NEVER_COUNTED = "penstock_next_chain_without_field_total"


class MetricsConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=2)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def values_of(text):
    """Counters without labels, by their names."""
    lines = (line.split(" ") for line in text.splitlines() if not line.startswith("#"))
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[0].startswith("penstock_next_")}


class MixedCluster(Cluster):
    def __init__(self, scratch, network, disks, nodes, seed):
        super().__init__(PROGRAMS["this"], scratch, network, disks, nodes)
        self.random = random.Random(f"{seed} releases")
        self.releases = {node: FIRST_RELEASES[i % len(FIRST_RELEASES)] for i, node in enumerate(nodes)}
        self.ended = dict.fromkeys([*COUNTED, NEVER_COUNTED], 0)  # of processes that are gone
        self.seen = {}  # of those that run, when they were asked last
        self.changes = 0

    def program_of(self, node):
        return str(PROGRAMS[self.releases[node]])

    def options_of(self, node):
        return ["--metrics", str(self.metrics_path(node))]

    def metrics_path(self, node):
        return self.scratch / f"metrics{node}"

    def restart(self, node):
        for name, value in self.seen.pop(node, {}).items():
            self.ended[name] += value
        release = self.random.choice(list(PROGRAMS))
        self.changes += release != self.releases[node]
        self.releases[node] = release
        super().restart(node)

    def watch(self):
        for node, release in self.releases.items():
            if release != "next" or node not in self.pids:
                continue
            connection = MetricsConnection(self.metrics_path(node))
            try:
                connection.request("GET", "/metrics")
                self.seen[node] = values_of(connection.getresponse().read().decode())
            except OSError:
                pass  # it is being killed, or begins
            finally:
                connection.close()

    def conclude(self):
        """Says what was said in which release; what was not, or should not have been, is a failure."""
        self.watch()
        told = dict(self.ended)
        for values in self.seen.values():
            for name, value in values.items():
                told[name] += value
        print(f"\n{self.changes} nodes came back as the other release")
        for name, text in COUNTED.items():
            print(f"{told[name]:10d} {text}")
        missing = [text for name, text in COUNTED.items() if told[name] == 0]
        if missing:
            raise RuntimeError(f"there were no {missing[0]}")
        if told[NEVER_COUNTED]:
            raise RuntimeError(f"{told[NEVER_COUNTED]} calls in the next version lacked its field")
        for log in self.logs():
            for line in log.read_text(errors="replace").splitlines():
                if "wrong_version" in line or "no common version" in line:
                    raise RuntimeError(f"{log}: {line}")
