#!/usr/bin/env python3
"""Runs the simulations of clusters with many seeds on several processors, and tells which seed fails.

Each simulation's seeds are dealt out in portions to its program, whose loop stops at the first seed
that fails. Which one that was is found by halving, as a program that died does not say. The rest of
the portion goes on.
"""

import argparse
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

# Program -> which of its tests go through seeds.
SIMULATIONS = {
    "controller_sim_tests": "KeeperSim.one_*:StepSim.acknowledged_*",
    "chain_sim_tests": "ChainSim.clients_*:ChainSim.damaged_*:ChainSim.removed_*:RingSim.targets_*:RingSim.nor_*",
    "chain_verbs_sim_tests": "VerbsSim.clients_*:VerbsSim.removed_*:VerbsSim.targets_*",
    "membership_sim_tests": "MembershipSim.clients_*",
    "store_chain_sim_tests": "*",
    "holds_net_sim_tests": "HoldsNetSim.nobody_*",
    "holds_sim_tests": "HoldsSim.nobody_*",
    "client_processes_sim_tests": "ProcessesSim.nobody_*",
    "client_chain_sim_tests": "ChainFilesSim.programs_*",
    "client_cluster_sim_tests": "ClusterSimTest.files_*",
}
PORTION_SECONDS = 20
FIRST_PORTION = 10
PORTION_TIMEOUT = 1800
# A simulation that fails more often has one cause that everybody knows by then.
FAILURES_MOST = 3


@dataclass
class Simulation:
    program: pathlib.Path
    test: str
    first: int
    end: int  # one behind the last seed
    next: int = 0
    again: list = field(default_factory=list)  # rests of portions in which one failed: (first, end)
    passed: int = 0
    seconds: float = 0.0
    failed: list = field(default_factory=list)

    def __post_init__(self):
        self.next = self.first

    def take(self):
        """The next portion as (first, count), as long as a processor needs about PORTION_SECONDS for."""
        if len(self.failed) >= FAILURES_MOST:
            return None
        speed = self.passed / self.seconds if self.seconds > 0 else 0
        most = max(int(speed * PORTION_SECONDS), FIRST_PORTION)
        if self.again:
            first, end = self.again.pop()
            if end - first > most:
                self.again.append((first + most, end))
            return first, min(end - first, most)
        if self.next >= self.end:
            return None
        first, self.next = self.next, min(self.next + most, self.end)
        return first, self.next - first

    def done(self):
        return self.passed / max(self.end - self.first, 1)


def narrow(fails, first, count):
    """The first seed of those from `first` on that fails; None if none of them does this time.

    `fails(first, count)` runs so many.
    """
    if not fails(first, count):
        return None
    while count > 1:
        half = count // 2
        if fails(first, half):
            count = half
        else:
            first, count = first + half, count - half
    return first


def command_of(simulation, seed):
    return f"PENSTOCK_SEED={seed} PENSTOCK_SEEDS=1 {simulation.program} --gtest_filter={simulation.test}"


def run(simulation, first, count):
    """Whether all of these seeds pass."""
    env = dict(os.environ, PENSTOCK_SEED=str(first), PENSTOCK_SEEDS=str(count))
    env.pop("PENSTOCK_TRACE", None)
    try:
        return subprocess.run(
            [simulation.program, f"--gtest_filter={simulation.test}"],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=PORTION_TIMEOUT,
        ).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class Runner:
    """Portions of all simulations, on as many threads as there may be programs at a time."""

    def __init__(self, simulations, jobs, until=None, run=run):
        self.simulations = simulations
        self.jobs = jobs
        self.until = until
        self.run = run
        self.lock = threading.Lock()
        self.messages = queue.Queue()

    def next(self):
        """Of the simulation that has done least; None if nothing is left to begin."""
        if self.until is not None and time.monotonic() >= self.until:
            return None
        for simulation in sorted(self.simulations, key=Simulation.done):
            portion = simulation.take()
            if portion is not None:
                return simulation, *portion
        return None

    def work(self):
        while True:
            with self.lock:
                portion = self.next()
            if portion is None:
                return
            self.do(*portion)

    def do(self, simulation, first, count):
        started = time.monotonic()
        passed = self.run(simulation, first, count)
        seconds = time.monotonic() - started
        if passed:
            with self.lock:
                simulation.passed += count
                simulation.seconds += seconds
            return
        seed = narrow(lambda begin, some: not self.run(simulation, begin, some), first, count)
        with self.lock:
            if seed is None:
                simulation.failed.append(f"one of {count} from {first} on, once")
            else:
                simulation.failed.append(str(seed))
                simulation.passed += seed - first
                if seed + 1 < first + count:
                    simulation.again.append((seed + 1, first + count))
        word = command_of(simulation, seed) if seed is not None else "another time it did not fail"
        self.messages.put(f"{simulation.test}: seed {simulation.failed[-1]} fails: {word}")

    def run_all(self):
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(self.jobs)]
        for thread in threads:
            thread.start()
        told = time.monotonic()
        while any(thread.is_alive() for thread in threads) or not self.messages.empty():
            try:
                print(self.messages.get(timeout=0.2), flush=True)
            except queue.Empty:
                pass
            if time.monotonic() - told >= 60:
                told = time.monotonic()
                done = sum(each.passed for each in self.simulations)
                print(f"seeds: {done} of {sum(e.end - e.first for e in self.simulations)}", file=sys.stderr)


def summary(simulations):
    width = max(len(each.test) for each in simulations)
    lines = [f"{'simulation':{width}}  {'passed':>9}  {'of':>9}  {'seeds/s':>8}  failed"]
    lines.append("-" * len(lines[0]))
    for each in simulations:
        speed = f"{each.passed / each.seconds:8.1f}" if each.seconds > 0 else f"{'-':>8}"
        failed = ", ".join(each.failed) or "none"
        lines.append(f"{each.test:{width}}  {each.passed:9}  {each.end - each.first:9}  {speed}  {failed}")
    return "\n".join(lines)


def tests_of(program, chosen):
    """The names of the tests of a program that `chosen` names."""
    listing = subprocess.run(
        [program, "--gtest_list_tests", f"--gtest_filter={chosen}"],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    suite, tests = "", []
    for line in listing.splitlines():
        if line.startswith("  "):
            tests.append(suite + line.split()[0])
        elif line.endswith("."):
            suite = line
    return tests


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--seeds", required=True, type=int)
    parser.add_argument("--jobs", required=True, type=int)
    parser.add_argument("--first", default=1, type=int)
    parser.add_argument("--minutes", type=float, help="begin nothing more after so long")
    parser.add_argument("names", nargs="*", help="parts of names of programs or tests")
    args = parser.parse_args()
    if args.seeds < 1 or args.jobs < 1 or args.first < 1:
        sys.exit("seeds: numbers of seeds, jobs and the first seed count from 1")

    targets = list(SIMULATIONS)
    if subprocess.run(["cmake", "--build", args.build, "-j", str(args.jobs), "--target", *targets],
                      stdout=sys.stderr).returncode:
        sys.exit("seeds: the build failed")
    simulations = []
    for name, chosen in SIMULATIONS.items():
        program = next(path for path in args.build.glob(f"src/*/{name}") if path.is_file())
        tests = tests_of(program, chosen)
        if not tests:
            sys.exit(f"seeds: {name} has no test like {chosen}")
        for test in tests:
            if not args.names or any(part in f"{name} {test}" for part in args.names):
                simulations.append(Simulation(program, test, args.first, args.first + args.seeds))
    if not simulations:
        sys.exit(f"seeds: no simulation is named like {' '.join(args.names)}")

    until = time.monotonic() + args.minutes * 60 if args.minutes else None
    try:
        Runner(simulations, args.jobs, until).run_all()
    except KeyboardInterrupt:
        print("seeds: interrupted", file=sys.stderr)
    print(summary(simulations), flush=True)
    return 1 if any(each.failed for each in simulations) else 0


if __name__ == "__main__":
    sys.exit(main())
