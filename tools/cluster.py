#!/usr/bin/env python3
"""What `./dev cluster` does once the release build stands: three nodes on this machine, files in three copies, and faults
that are chosen from a seed while files are imported with ever new bytes, and verified. A line a second says what happened;
at the end a table says how long operations waited, and nothing is left.

With root's rights each node gets a network namespace and an address of its own; else all of them listen on loopback, and
there are faults of processes only. Faults:

  kill      the process, and a new one some seconds later  lossy       loses 1 to 15 % of packets each way
  kill-all  all processes at once; then every file is      slow        sends and receives 50 to 200 Mbit/s
            verified                                       full        the disk of another node has no room
  pause     the process, for longer than its lease         full-first  the first node's disk has none
  cut       a node from all others                         full-all    no disk has any, and a program on a mount is
  deaf      a node receives nothing                                    told so, and goes on when there is room
  mute      a node sends nothing                           slow-disk   each operation of a disk takes 2 to 50 ms longer
  apart     two nodes from each other                      stall       no operation of a disk ends
  storm     10,000 connections of another machine, which   drain       moves all of a node elsewhere, and back (with
            say nothing, or anything, or ask and never                 four nodes)
            read

  database  crashes the server with the names (with --kv postgresql)

Every node mounts the files (--no-mounts: none does), where root's rights or fusermount3 allow it: programs write durably through
one mount and read through another, and what is read must be what was written last. With --kv postgresql the names are in a
database of a PostgreSQL server, which is started for it.

Beside imports and verifications four programs read and write blocks of one file at once, durably: all that they see must have
been possible one after the other.

--grow has no faults: three nodes become six and then three others, while programs go on.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cluster_grow
from cluster_faults import ALL, FAULT_SECONDS, PAUSE_SECONDS, PAUSE_SECONDS_FIRST
from cluster_mixed import FIRST_RELEASES, MixedCluster
from cluster_mounts import Mounts
from cluster_nodes import Cluster, Disks, Network
from cluster_postgres import Postgres
from cluster_repair import measure_repair
from cluster_work import AGAIN_SECONDS, MIB, Files, Registers, Work, verify

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIES = 3
# The next fault comes once all copies have been whole for so long.
QUIET_SECONDS = 2
# How long that may take after a fault has ended.
WHOLE_SECONDS = 90
# An operation while nothing is wrong, on a machine that is as busy as it likes.
CALM_SECONDS = 60
# And how long something that ends by itself may.
CHANGE_SECONDS = 120
# How long a read or write of a block may take, while the first node is hurt, too: two deadlines of a client's calls.
REGISTERS_SECONDS = 60


class Stopped(RuntimeError):
    """What was found to be wrong."""


class Story:
    def __init__(self, cluster, kinds, options):
        self.cluster = cluster
        self.kinds = kinds
        self.options = options
        self.works = []
        self.registers = None
        self.mounts = None
        self.files = None
        self.random = random.Random(f"{options.seed} faults")
        self.begun = time.monotonic()
        self.left = []  # what makes the faults of this round, in order
        self.fault = None  # the present or last one,
        self.fault_begun = None
        self.fault_ended = None  # and None while it lasts
        self.is_over = True  # it has ended, and all copies are whole
        self.whole_since = None
        self.notes = []
        self.calm_longest = 0.0  # that an operation was seen to take while there was no fault
        self.told = collections.defaultdict(list)  # by kind: longest import, longest verify, until whole

    def note(self, text):
        self.notes.append(text)

    def may_fail(self, work, failure):
        """Programs run on the first node: what hits it hits them."""
        del work
        if self.fault is None or self.is_over:
            return False
        return self.fault.hits_first() or self.fault.refuses(failure)

    def is_hurt(self):
        """What programs on mounts may be told of: any node's trouble is that of those on it."""
        return self.fault is not None and not self.is_over

    def tell_mounts(self):
        if self.mounts is not None:
            self.mounts.tell(self.is_hurt())

    def health(self):
        if self.fault is not None and self.fault_ended is None and self.fault.hits_first():
            return None
        try:
            return self.cluster.ask("cluster", self.cluster.store(self.cluster.first))
        except (RuntimeError, subprocess.TimeoutExpired):
            return None

    def line(self, health, done_before):
        work = "  ".join(f"{w.kind} {w.done - d:3d}" for w, d in zip(self.works, done_before))
        state = "nothing is heard of the first node"
        if health is not None:
            state = f"{health['whole']:3d} whole {health['partial']:3d} partial {health['syncing']:3d} syncing"
            state += f" {health['moves_left']:2d} move" if health["moves_left"] else ""
        text = "; ".join(self.notes)
        self.notes = []
        waits = self.waits(time.monotonic())
        pause = f"waits {waits:.1f} s" if waits > 1 else ""
        print(f"{time.monotonic() - self.begun:6.1f} s  {work}  {state}  {pause:12s} {text}".rstrip(), flush=True)

    def waits(self, now):
        begun = [begun for begun in (work.begun for work in self.works) if begun is not None]
        return now - min(begun, default=now)

    def one_of_each(self):
        return [ALL[kind] for kind in self.random.sample(self.kinds, len(self.kinds))]

    def begin_fault(self, now):
        if not self.left:
            self.left = self.one_of_each()
        self.fault = self.left.pop(0)(self.cluster, self.random)
        for work in self.works:
            work.longest_now = 0.0
        self.fault_begun, self.fault_ended, self.is_over = now, None, False
        self.tell_mounts()
        self.whole_since = None
        self.note(self.fault.text().upper())
        self.fault.begin()

    def end_fault(self):
        self.fault.end()
        self.fault_ended = time.monotonic()
        self.whole_since = None
        self.note(f"{self.fault.name} is over")
        if self.fault.said:
            self.note(self.fault.said)

    def go_on(self, now, may_begin):
        """Begins or ends a fault when it is time."""
        if self.is_over:
            if may_begin and self.whole_since is not None and now - self.whole_since >= QUIET_SECONDS:
                self.begin_fault(now)
        elif self.fault_ended is None:
            if now - self.fault_begun >= self.fault.seconds and self.fault.may_end():
                self.end_fault()
            elif now - self.fault_begun > CHANGE_SECONDS * self.options.patience:
                raise Stopped(f"{self.fault.text()}: it does not come to an end")
        elif self.whole_since is not None and now - self.whole_since >= QUIET_SECONDS / 2:
            if self.fault.verifies_all:
                self.verify_all()
            self.is_over = True
            longest = [work.longest_now for work in self.works]
            self.told[self.fault.name].append((*longest, self.whole_since - self.fault_ended))
        elif now - self.fault_ended > WHOLE_SECONDS * self.options.patience:
            raise Stopped(f"{self.fault.text()}: the copies are not whole {WHOLE_SECONDS * self.options.patience} s after its end")

    def verify_all(self):
        """Every file, before the next fault can hide what this one did."""
        for file in self.files.all:
            while not self.files.take_this(file):
                self.check()
                time.sleep(AGAIN_SECONDS)
            try:
                found, failure = verify(self.works[1], file)
                if found is None:
                    raise Stopped(f"{file.name} cannot be read after '{self.fault.text()}': {failure}")
                self.files.keep(file, [found])
            finally:
                self.files.give_back(file)
        self.note(f"all {len(self.files.all)} files are verified")

    def check_pauses(self, now):
        """Whether a fault makes operations wait for longer than it may. They count from when they began, or the fault did;
        where the first node was hit, from the fault's end. What a machine with other work makes of operations when nothing is
        wrong, they may take besides; then they have to end at all."""
        if self.is_over:
            self.check_calm(now)
            return
        patience = self.options.patience
        limit, since = PAUSE_SECONDS * patience, self.fault_begun
        if self.fault is not None and self.fault.hits_first() and not self.is_over:
            limit, since = PAUSE_SECONDS_FIRST * patience, self.fault_ended
            if since is None:
                return
        for work in self.works:
            begun = work.begun
            if begun is not None and now - max(begun, since or begun) > limit + self.calm_longest:
                raise Stopped(f"{work.kind} has not gone on for more than {limit} s, and {self.calm_longest:.1f} s that operations "
                              "took when nothing was wrong")

    def check_calm(self, now):
        waits = self.waits(now)
        self.calm_longest = max(self.calm_longest, waits)
        if waits > CALM_SECONDS * self.options.patience:
            raise Stopped(f"an operation has not gone on for {waits:.0f} s, and nothing is wrong")

    def check(self):
        for work in self.works:
            if work.error:
                raise Stopped(work.error)
        if self.registers is not None:
            self.registers.check()
        if self.mounts is not None:
            self.mounts.check()

    def look(self, done_before):
        self.cluster.watch()
        self.tell_mounts()
        health = self.health()
        now = time.monotonic()
        is_whole = (health is not None and health["whole"] == health["chains"] and health["missing"] == 0
                    and health["syncing"] == 0 and health["moves_left"] == 0)
        if not is_whole:
            self.whole_since = None
        elif self.whole_since is None:
            self.whole_since = now
        self.line(health, done_before)
        self.check_pauses(now)
        return now

    def second(self, may_begin):
        done_before = [work.done for work in self.works]
        time.sleep(1)
        self.check()
        now = self.look(done_before)
        self.go_on(now, may_begin)
        return now

    def run(self):
        end = self.begun + self.options.seconds
        if self.options.grow:
            self.left = cluster_grow.steps()
        for _ in range(self.options.times):
            self.left += self.one_of_each()
        if self.left:
            while self.left or not self.is_over:
                self.second(bool(self.left))
            return
        while time.monotonic() < end:
            self.second(end - time.monotonic() > FAULT_SECONDS[0])
        deadline = time.monotonic() + (CHANGE_SECONDS + WHOLE_SECONDS) * self.options.patience
        while not self.is_over or self.whole_since is None:
            if time.monotonic() > deadline:
                raise Stopped("the copies are not whole in the end")
            self.second(False)

    def table(self):
        if not self.told:
            return
        print(f"\n{'fault':8s} {'times':>5s}  {'longest import':>14s}  {'longest verify':>14s}  {'then whole after':>16s}")
        for kind, rows in sorted(self.told.items()):
            worst = [max(column) for column in zip(*rows)]
            print(f"{kind:8s} {len(rows):5d}  {worst[0]:12.1f} s  {worst[1]:12.1f} s  {worst[2]:14.1f} s")


def choose_kinds(options, network, disks):
    """Which of the faults that were asked for are possible here; says which are not."""
    wanted = list(ALL) if options.faults == "all" else options.faults.split(",")
    unknown = [kind for kind in wanted if kind not in ALL]
    if unknown:
        sys.exit(f"cluster: there is no fault {unknown[0]}; there are: {' '.join(ALL)}")
    missing = {}
    if not network.made:
        missing["network"] = f"no network namespaces: {network.why or 'as asked'}"
    elif shutil.which("nft") is None or shutil.which("tc") is None:
        missing["network"] = "nft or tc is not installed (apt-get install nftables iproute2)"
    if not disks.mounted:
        missing["disk"] = f"no disks of their own: {disks.why or 'they need the rights of root'}"
    if not disks.slow:
        missing["slow disk"] = f"no disks that can be slow: {disks.why or 'they need the rights of root'}"
    if options.kv != "postgresql":
        missing["database"] = "the names are the first node's own (--kv postgresql)"
    if options.nodes <= COPIES:
        missing["nodes"] = "it needs --nodes 4"
    kinds = [kind for kind in wanted if ALL[kind].needs not in missing]
    for kind in wanted:
        if kind not in kinds:
            print(f"without {kind}: {missing[ALL[kind].needs]}")
    if not kinds:
        sys.exit("cluster: none of these faults is possible here")
    return kinds


def show_logs(cluster):
    for log in cluster.logs():
        if not log.exists():
            continue
        print(f"\nthe end of {log}:", file=sys.stderr)
        print("".join(log.read_text(errors="replace").splitlines(keepends=True)[-40:]), file=sys.stderr)


def begin(cluster, options):
    started = time.monotonic()
    cluster.start()
    network = cluster.network
    where = "network namespaces" if network.made else f"loopback ({network.why or 'as asked'})"
    print(f"{options.nodes} nodes in {time.monotonic() - started:.1f} s, in {where}, seed {options.seed}")
    first = cluster.store(cluster.first)
    cluster.run("set", f"{first}:/", "--copies", str(COPIES))
    print(cluster.run("nodes", first), end="")
    cluster.run("import", str(cluster.empty), f"{first}:/files", "-q")


def hurt(story):
    """All faults, beside all that programs do."""
    story.begun = time.monotonic()
    for work in story.works:
        work.thread.start()
    try:
        story.run()
    finally:
        if story.fault is not None and story.fault_ended is None:
            story.fault.abandon()
        if story.mounts is not None and sys.exc_info()[0] is not None:
            story.mounts.abandon()
        for work in story.works:
            work.stopping = True


def tell(cluster, scratch, options):
    kinds = [] if options.grow else choose_kinds(options, cluster.network, cluster.disks)
    begin(cluster, options)
    files = Files(scratch / "source", options.files, options.seed)
    story = Story(cluster, kinds, options)
    story.files = files
    story.works = [Work(cluster, files, options.seed, kind, story.may_fail) for kind in ("import", "verify")]
    imports, verifies = story.works
    for file in files.all:
        imports.one(file)
    print(f"imported {options.files} files, {files.bytes() / MIB:.0f} MiB, in three copies; now: {' '.join(kinds) or 'growing'}")
    most = REGISTERS_SECONDS * options.patience
    if cluster.has_mounts:
        story.mounts = Mounts(cluster, options.seed, most)
    with Registers(cluster, options.helpers / "cluster_registers", options.seed, most) as registers:
        story.registers = registers
        hurt(story)
        for work in story.works:
            work.thread.join(PAUSE_SECONDS_FIRST * options.patience)
            if work.thread.is_alive():
                raise Stopped(f"{work.kind} does not end")
        story.check()
        seen = registers.stop(2 * most)
        on_mounts = story.mounts.stop() if story.mounts is not None else ""
    for file in files.all:
        verify(verifies, file)
    story.table()
    faults = sum(len(rows) for rows in story.told.values())
    print(f"\n{faults} {'changes' if options.grow else 'faults'}; {imports.done} imports ({imports.refused} refused for want of room) and {verifies.done} "
          f"verifications, {(imports.bytes + verifies.bytes) / MIB:.0f} MiB; every byte is equal; the longest import took "
          f"{imports.longest:.1f} s, the longest verification {verifies.longest:.1f} s, the longest operation without any fault "
          f"{story.calm_longest:.1f} s")
    print(seen)
    if on_mounts:
        print(on_mounts)


def may_mount(options):
    """Not where something else is measured or tried."""
    if not options.mounts or options.repair or options.mixed or options.grow:
        return False
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("without mounts: there is no /dev/fuse for this user")
        return False
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        print("without mounts: they need root's rights or fusermount3 (apt-get install fuse3)")
        return False
    return True


def parse():
    parser = argparse.ArgumentParser(prog="./dev cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="how long there are faults (default 60)")
    parser.add_argument("--minutes", type=float, help="the same in minutes")
    parser.add_argument("--faults", default="kill", help="some of those above, with commas, or all (default kill)")
    parser.add_argument("--times", type=int, default=0, help="each fault so often, however long that takes")
    parser.add_argument("--once", dest="times", action="store_const", const=1, help="the same as --times 1")
    parser.add_argument("--nodes", type=int, default=3, help="how many nodes (default 3)")
    parser.add_argument("--files", type=int, default=40, help="how many files (default 40)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of sizes, bytes and faults")
    parser.add_argument("--patience", type=int, default=1, metavar="TIMES",
                        help="so many times longer than allowed may things take: for a machine that has other work")
    parser.add_argument("--loopback", action="store_true", help="no network namespaces")
    parser.add_argument("--repair", action="store_true",
                        help="measure instead how fast a copy is repaired, and what clients keep meanwhile")
    parser.add_argument("--grow", action="store_true", help="three nodes become six, and then three of these go")
    parser.add_argument("--no-mounts", dest="mounts", action="store_false", help="nodes mount nothing")
    parser.add_argument("--kv", choices=["rocksdb", "postgresql"], default="rocksdb",
                        help="where the names are: the first node's own database (default), or a PostgreSQL server")
    parser.add_argument("--gib", type=float, default=1.0, help="for --repair: how much (default 1)")
    parser.add_argument("--link", type=int, default=0, metavar="MBIT", help="for --repair: how fast links are (not limited)")
    parser.add_argument("--mixed", action="store_true",
                        help="two nodes of this release and two of one that plays the next; each process that is "
                        "killed comes back as the one or the other")
    parser.add_argument("--program", default=ROOT / "build/release/bin/penstock", help=argparse.SUPPRESS)
    parser.add_argument("--helpers", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.minutes is not None:
        options.seconds = int(options.minutes * 60)
    if not COPIES <= options.nodes <= 9:
        parser.error("3 to 9 nodes are possible")
    if options.grow:
        options.nodes = COPIES
    if options.mixed:
        options.nodes = len(FIRST_RELEASES)
    if options.helpers is None:
        options.helpers = ROOT / "build" / ("dev" if options.mixed else "release") / "tests/cluster"
    return options


def main():
    options = parse()
    # Whoever ends this finds nothing left, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    nodes = list(range(1, options.nodes + 1))
    places = list(range(1, 7)) if options.grow else nodes
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
    network = Network(places)
    kinds = set(ALL) if options.faults == "all" else set(options.faults.split(","))
    has_disks = os.geteuid() == 0 and not options.repair
    is_slow = bool(kinds & {kind for kind in ALL if ALL[kind].needs == "slow disk"})
    wants_disks = is_slow or bool(kinds & {kind for kind in ALL if ALL[kind].needs == "disk"})
    disks = Disks(scratch, options.helpers / "slow_disk" if is_slow else None)
    if options.mixed:
        cluster = MixedCluster(scratch, network, disks, nodes, options.seed)
    else:
        cluster = Cluster(options.program, scratch, network, disks, nodes)
    cluster.has_mounts = may_mount(options)
    cluster.empty = scratch / "empty"
    cluster.empty.mkdir()
    try:
        if options.kv == "postgresql":
            cluster.database = Postgres()
            print(f"PostgreSQL in {cluster.database.folder}")
        if not options.loopback:
            network.make_if_possible()
        if has_disks and wants_disks:
            disks.make_if_possible(nodes)
        if options.repair:
            begin(cluster, options)
            measure_repair(cluster, scratch, options)
        else:
            tell(cluster, scratch, options)
            if options.mixed:
                cluster.conclude()
    except (RuntimeError, subprocess.SubprocessError) as error:
        show_logs(cluster)
        sys.exit(f"cluster: FAILED: {error} (seed {options.seed})")
    except KeyboardInterrupt:
        sys.exit("cluster: interrupted")
    finally:
        cluster.stop()
        network.remove()
        disks.remove()
        if cluster.database is not None:
            cluster.database.remove()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
