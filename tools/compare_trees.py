#!/usr/bin/env python3
"""Compares two directory trees: names, types, modes, symlink targets, hard links and every byte.

Owners are compared when root runs it: an ordinary user's copy belongs to that user. What the user may
not read in the source is counted, not compared. Shows on standard error how far it is, prints each
difference, and what was compared at the end; exits 1 when anything differs.
"""

import argparse
import os
import stat
import sys
import time
from dataclasses import dataclass, field

DIFFERENCES_SHOWN = 20
REDRAW_SECONDS, PLAIN_LINE_SECONDS = 0.2, 5
PIECE_BYTES = 1 << 20


@dataclass
class Outcome:
    files: int = 0
    directories: int = 0
    links: int = 0
    bytes: int = 0
    unreadable: int = 0
    differences: list = field(default_factory=list)


class Progress:
    """A line of how far it is: rewritten on a terminal, now and then elsewhere."""

    def __init__(self, stream):
        self.stream, self.terminal = stream, stream.isatty()
        self.pause = REDRAW_SECONDS if self.terminal else PLAIN_LINE_SECONDS
        self.next = time.monotonic() + self.pause

    def tell(self, outcome):
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + self.pause
        line = f"compare  {outcome.files} files, {outcome.bytes / 1e6:.0f} MB, {len(outcome.differences)} differences"
        self.stream.write(f"\r\033[K{line}" if self.terminal else f"{line}\n")
        self.stream.flush()

    def finish(self):
        if self.terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()


class Comparison:
    def __init__(self, source, copy, owners, progress=None):
        self.source = os.fsencode(source)
        self.copy = os.fsencode(copy)
        self.owners = owners
        self.outcome = Outcome()
        self.inode_pairs = {}
        self.progress = progress

    def differ(self, name, what):
        self.outcome.differences.append(f"{os.fsdecode(name) or '.'}: {what}")

    def compare(self):
        pending = [b""]
        while pending:
            name = pending.pop()
            pending += self.compare_entry(name)
            if self.progress:
                self.progress.tell(self.outcome)
        return self.outcome

    def compare_entry(self, name):
        """Compares one entry; returns the entries below it that both sides have."""
        source, copy = os.path.join(self.source, name), os.path.join(self.copy, name)
        if not name:
            source, copy = self.source, self.copy
        try:
            a, b = os.lstat(source), os.lstat(copy)
        except OSError as error:
            self.differ(name, error.strerror)
            return []
        if stat.S_IFMT(a.st_mode) != stat.S_IFMT(b.st_mode):
            self.differ(name, "another type")
            return []
        self.compare_attributes(name, a, b)
        if stat.S_ISDIR(a.st_mode):
            return self.compare_directory(name, source, copy)
        if stat.S_ISLNK(a.st_mode):
            self.outcome.links += 1
            if os.readlink(source) != os.readlink(copy):
                self.differ(name, "another symlink target")
        elif stat.S_ISREG(a.st_mode):
            self.compare_file(name, source, copy)
        return []

    def compare_attributes(self, name, a, b):
        if not stat.S_ISLNK(a.st_mode) and stat.S_IMODE(a.st_mode) != stat.S_IMODE(b.st_mode):
            self.differ(name, f"mode {stat.S_IMODE(a.st_mode):o} became {stat.S_IMODE(b.st_mode):o}")
        if self.owners and (a.st_uid, a.st_gid) != (b.st_uid, b.st_gid):
            self.differ(name, f"owner {a.st_uid}:{a.st_gid} became {b.st_uid}:{b.st_gid}")
        if stat.S_ISREG(a.st_mode):
            if a.st_size != b.st_size:
                self.differ(name, f"size {a.st_size} became {b.st_size}")
            # Names of one file stay names of one file, and files stay apart.
            if self.inode_pairs.setdefault((a.st_dev, a.st_ino), b.st_ino) != b.st_ino:
                self.differ(name, "a hard link became a file of its own")

    def compare_directory(self, name, source, copy):
        self.outcome.directories += 1
        try:
            a = set(os.listdir(source))
        except PermissionError:
            self.outcome.unreadable += 1
            return []
        b = set(os.listdir(copy))
        for missing in sorted(a - b):
            self.differ(os.path.join(name, missing), "missing from the copy")
        for extra in sorted(b - a):
            self.differ(os.path.join(name, extra), "only in the copy")
        return [os.path.join(name, entry) for entry in sorted(a & b, reverse=True)]

    def compare_file(self, name, source, copy):
        try:
            a = open(source, "rb", buffering=0)
        except PermissionError:
            self.outcome.unreadable += 1
            return
        with a:
            try:
                with open(copy, "rb", buffering=0) as b:
                    self.compare_bytes(name, a, b)
            except OSError as error:
                self.differ(name, error.strerror)
        self.outcome.files += 1

    def compare_bytes(self, name, a, b):
        offset = 0
        while True:
            left, right = read_piece(a), read_piece(b)
            if left != right:
                at = next((i for i, (x, y) in enumerate(zip(left, right)) if x != y), min(len(left), len(right)))
                self.differ(name, f"other bytes from offset {offset + at}")
                return
            if not left:
                return
            offset += len(left)
            self.outcome.bytes += len(left)


def read_piece(file):
    """Up to PIECE_BYTES, fewer only at the end of the file: a short read is no difference."""
    pieces, wanted = [], PIECE_BYTES
    while wanted:
        piece = file.read(wanted)
        if not piece:
            break
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("copy")
    args = parser.parse_args()
    progress = Progress(sys.stderr)
    outcome = Comparison(args.source, args.copy, os.geteuid() == 0, progress).compare()
    progress.finish()
    for difference in outcome.differences[:DIFFERENCES_SHOWN]:
        print(difference)
    if len(outcome.differences) > DIFFERENCES_SHOWN:
        print(f"... and {len(outcome.differences) - DIFFERENCES_SHOWN} more")
    unreadable = f", {outcome.unreadable} not readable here" if outcome.unreadable else ""
    print(
        f"{outcome.files} files, {outcome.directories} directories, {outcome.links} symlinks, "
        f"{outcome.bytes / 1e9:.2f} GB compared, {len(outcome.differences)} differences{unreadable}"
    )
    return 1 if outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())
