import random
import unittest

import cluster_grow
from cluster_nodes import Failed
from cluster_work import could_not_compare


class CouldNotCompare(unittest.TestCase):
    def says(self, text):
        return could_not_compare(Failed.of("verify", f"penstock verify: file: {text}\n"))

    def test_what_cannot_be_read_says_nothing_of_bytes(self):
        for text in ("read: Input/output error", "open in the store: the node is gone", "list: Broken pipe",
                     "not in the store: Transport endpoint is not connected"):
            self.assertTrue(self.says(text), text)

    def test_other_bytes_and_missing_names_are_differences(self):
        for text in ("other bytes in the store from offset 7", "length 1 in the store, not 2",
                     "not in the store: No such file or directory"):
            self.assertFalse(self.says(text), text)


class FakeCluster:
    """Answers as commands do: chains with the nodes that have copies."""

    first = 1

    def __init__(self, chains, leaving=()):
        self.chains = chains
        self.leaving = leaving

    def store(self, node):
        return str(node)

    def ask(self, command, _):
        if command == "chains":
            return {"chains": [{"members": [{"node": node} for node in chain]} for chain in self.chains]}
        nodes = sorted({node for chain in self.chains for node in chain})
        return {"nodes": [{"node": node, "state": "up", "is_to_go": node in self.leaving,
                           "chains_left": sum(node in chain for chain in self.chains)} for node in nodes]}


class IsEven(unittest.TestCase):
    def test_nodes_with_as_many_chains_as_others(self):
        chains = [(1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2)]
        self.assertTrue(cluster_grow.is_even(FakeCluster(chains)))

    def test_not_where_one_has_two_more(self):
        chains = [(1, 2, 3), (1, 2, 4), (1, 3, 4), (1, 2, 3)]
        self.assertTrue(cluster_grow.is_even(FakeCluster(chains + [(2, 3, 4)])))
        self.assertFalse(cluster_grow.is_even(FakeCluster(chains + [(1, 2, 3)])))

    def test_not_where_two_nodes_share_all_they_have(self):
        triples = [(1, 2, 3)] * 6 + [(4, 5, 6)] * 6
        self.assertFalse(cluster_grow.is_even(FakeCluster(triples)))

    def test_a_node_that_leaves_does_not_count(self):
        chains = [(1, 2, 3)] * 4
        self.assertTrue(cluster_grow.is_even(FakeCluster(chains + [(1, 2, 9)], leaving=(9,))))

    def test_three_join_and_three_others_leave(self):
        cluster = FakeCluster([(1, 2, 3)])
        cluster.nodes = [1, 2, 3]
        made = [step(cluster, random.Random(1)) for step in cluster_grow.steps()]
        self.assertEqual([(one.name, one.node) for one in made],
                         [("join", 4), ("join", 5), ("join", 6), ("leave", 2), ("leave", 3), ("leave", 4)])


if __name__ == "__main__":
    unittest.main()
