import contextlib
import io
import pathlib
import unittest

import run_seeds
from run_seeds import Runner, Simulation


def simulation(first=1, end=101):
    return Simulation(pathlib.Path("program"), "Suite.test", first, end)


def run_quietly(runner):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        runner.run_all()
    return said.getvalue()


class Narrow(unittest.TestCase):
    def test_finds_the_first_seed_that_fails(self):
        for bad in range(10, 30):
            fails = lambda first, count, bad=bad: any(s in (bad, 35) for s in range(first, first + count))
            self.assertEqual(run_seeds.narrow(fails, 10, 30), bad)

    def test_says_when_it_does_not_fail_again(self):
        self.assertIsNone(run_seeds.narrow(lambda first, count: False, 1, 10))


class Portions(unittest.TestCase):
    def test_are_all_seeds_once(self):
        each = simulation()
        seeds = []
        while (portion := each.take()) is not None:
            seeds += range(portion[0], portion[0] + portion[1])
            each.passed += portion[1]
            each.seconds += 1.0
        self.assertEqual(seeds, list(range(1, 101)))

    def test_end_after_many_failures(self):
        each = simulation()
        each.failed = ["1", "2", "3"]
        self.assertIsNone(each.take())


class Runs(unittest.TestCase):
    def test_tells_seeds_that_fail_and_goes_on_behind_them(self):
        ran = []

        def run(_, first, count):
            ran.append((first, count))
            return not any(seed in (7, 42) for seed in range(first, first + count))

        each = simulation()
        said = run_quietly(Runner([each], jobs=2, run=run))
        self.assertEqual(sorted(each.failed), ["42", "7"])
        self.assertEqual(each.passed, 98)
        self.assertIn("PENSTOCK_SEED=42 PENSTOCK_SEEDS=1 program --gtest_filter=Suite.test", said)
        self.assertIn("42", run_seeds.summary([each]))

    def test_shares_the_time_among_simulations(self):
        order = []

        def run(each, first, count):
            order.append(each.test)
            return True

        others = [simulation(), Simulation(pathlib.Path("program"), "Suite.other", 1, 101)]
        run_quietly(Runner(others, jobs=1, run=run))
        self.assertEqual(set(order[:2]), {"Suite.test", "Suite.other"})
        self.assertEqual([each.passed for each in others], [100, 100])

    def test_begins_nothing_when_the_time_is_over(self):
        each = simulation()
        run_quietly(Runner([each], jobs=1, until=0.0, run=lambda *_: True))
        self.assertEqual(each.passed, 0)


if __name__ == "__main__":
    unittest.main()
