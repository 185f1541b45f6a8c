"""Three nodes become six, and then three of these go, while programs go on: each change is over when copies lie evenly."""

import functools
import itertools
import math

from cluster_faults import Fault


class Change(Fault):
    """No fault: no operation may fail by it."""

    def __init__(self, cluster, chance, node):
        super().__init__(cluster, chance)
        self.node = node
        self.seconds = 0

    def hits_first(self):
        return False


class Join(Change):
    name = "join"

    def begin(self):
        self.cluster.join(self.node)
        self.cluster.nodes.append(self.node)

    def may_end(self):
        return is_even(self.cluster)

    def end(self):
        pass


class Leave(Change):
    name = "leave"

    def begin(self):
        self.cluster.run("drain", self.cluster.store(self.cluster.first), str(self.node))

    def may_end(self):
        return chains_of_nodes(self.cluster).get(self.node, 0) == 0 and is_even(self.cluster)

    def end(self):
        self.cluster.nodes.remove(self.node)
        self.cluster.run("down", self.cluster.store(self.node))
        self.cluster.pids.pop(self.node)
        self.cluster.run("remove", self.cluster.store(self.cluster.first), str(self.node))


def chains_of_nodes(cluster):
    nodes = cluster.ask("nodes", cluster.store(cluster.first))["nodes"]
    return {node["node"]: node["chains_left"] for node in nodes if node["state"] != "removed"}


def is_even(cluster):
    """No node that stays has two chains more than another, and no two share more than the placement allows."""
    nodes = cluster.ask("nodes", cluster.store(cluster.first))["nodes"]
    stay = {node["node"]: node["chains_left"] for node in nodes if node["state"] == "up" and not node["is_to_go"]}
    if len(stay) < 3 or max(stay.values()) > min(stay.values()) + 1:
        return False
    chains = cluster.ask("chains", cluster.store(cluster.first))["chains"]
    pairs = {pair: 0 for pair in itertools.combinations(sorted(stay), 2)}
    for chain in chains:
        members = sorted(member["node"] for member in chain["members"])
        for pair in itertools.combinations(members, 2):
            if pair in pairs:
                pairs[pair] += 1
    return max(pairs.values()) <= most_shared(sum(pairs.values()) / len(pairs))


def most_shared(mean):
    """Of the chains of two nodes, so that the load of one that is lost spreads evenly over the others."""
    return max(1.25 * mean, math.ceil(mean) + 1)


def steps():
    """In order: what makes each change, as the faults of a story are made."""
    joins = [functools.partial(Join, node=node) for node in (4, 5, 6)]
    return joins + [functools.partial(Leave, node=node) for node in (2, 3, 4)]
