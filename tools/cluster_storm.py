#!/usr/bin/env python3
"""What a hostile or broken machine does to a node's port, until it is ended: thousands of connections that say nothing, a
part of a greeting, or anything at all, and some that greet as docs/formats/tcp.md says, ask for ever, and read no answer.

usage: cluster_storm.py HOST PORT CLUSTER NODE TARGET COUNT
Prints a line with counts when it is ended by SIGTERM."""

import random
import resource
import signal
import socket
import struct
import sys
import time

HELLO = 1
WELCOME = 2
REQUEST = 4
PLACED_BYTES = 1 << 20
# Of replicas, and the controller's (docs/formats).
METHODS = (*range(32, 37), *range(40, 51), 64)
CONTROLLER = 0xFFFFFFFF
FIRST_REPLICA = 1 << 30
REQUESTS_AT_ONCE = 64
GARBAGE_BYTES = 64 << 10
# Of those that were ended by the node so many are made anew at a time.
AT_ONCE = 200
PAUSE_SECONDS = 0.02


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frame(version, kind, message, method=0, call=0, exposures=0):
    header = struct.pack("<4sBBHQIIQIIB3x", b"PNST", version, kind, method, call, len(message), 0, 0, 0, 0, exposures)
    return header + struct.pack("<I", crc32c(header)) + message


def hello(cluster, node, target, chance):
    who = chance.randrange(1000, 1 << 31)
    service = chance.choice((CONTROLLER, FIRST_REPLICA + target))
    return frame(0, HELLO, struct.pack("<BBHIQ16sIIQ", 1, 1, 0, service, 0, cluster, who, node, chance.randrange(1, 1 << 60)))


def chain_header(chance):
    """Of a chain and a chunk that may be there, mostly right."""
    chain = 1024 + chance.randrange(16)
    return struct.pack("<HHB3xQQQIIQQIIQ", 1, 72, chance.randrange(3), chance.randrange(64), 0, chance.randrange(64), chain,
                       chance.randrange(4), 0, 0, 0, 0, chance.choice((0, 1_000_000)))


def request(call, chance):
    exposures = chance.randrange(1, 3)
    said = b"".join(struct.pack("<QBB6x", PLACED_BYTES, chance.randrange(2), 0) for _ in range(exposures))
    said += (chain_header(chance) if chance.randrange(4) else b"") + chance.randbytes(chance.randrange(0, 128))
    return frame(1, REQUEST, said, chance.choice(METHODS), call, exposures)


class Attacker:
    """One connection after the other, each of another kind."""

    def __init__(self, address, cluster, node, target, chance):
        self.address = address
        self.cluster = cluster
        self.node = node
        self.target = target
        self.chance = chance
        self.socket = None
        self.left = b""
        self.calls = None  # how many it has asked; none: it does not
        self.welcome = False

    def connect(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.connect_ex(self.address)
        self.calls = None
        self.welcome = False
        self.left = self.what_to_say()

    def what_to_say(self):
        kind = self.chance.randrange(4)
        if kind == 0:
            return b""
        if kind == 1:
            return self.chance.randbytes(GARBAGE_BYTES)
        greeting = hello(self.cluster, self.node, self.target, self.chance)
        if kind == 2:
            return greeting[: self.chance.randrange(1, len(greeting))]
        self.calls = 0
        return greeting

    def say(self):
        """Whether the node keeps the connection."""
        try:
            if self.welcome and len(self.left) < GARBAGE_BYTES:
                self.left += b"".join(request(self.calls + i, self.chance) for i in range(REQUESTS_AT_ONCE))
                self.calls += REQUESTS_AT_ONCE
            if self.left:
                self.left = self.left[self.socket.send(self.left) :]
            # What is there stays: this one reads no answer.
            said = self.socket.recv(6, socket.MSG_PEEK)
            self.welcome = self.calls is not None and said[:4] == b"PNST" and said[5:] == bytes([WELCOME])
            return said != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self):
        self.socket.close()
        self.socket = None


def main():
    host, port, cluster, node, target, count = sys.argv[1:7]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = int(count) if hard == resource.RLIM_INFINITY else min(int(count), hard - 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, hard))
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    chance = random.Random(int(cluster, 16) + int(node))
    attackers = [Attacker((host, int(port)), bytes.fromhex(cluster), int(node), int(target), chance) for _ in range(count)]
    made = ended_by_node = most = at = welcomes = asked = 0
    while not ended:
        for _ in range(AT_ONCE):
            one = attackers[at]
            at = (at + 1) % count
            if one.socket is None:
                one.connect()
                made += 1
                continue
            was_welcome = one.welcome
            before = one.calls or 0
            if not one.say():
                one.close()
                ended_by_node += 1
            welcomes += one.welcome and not was_welcome
            asked += max(0, (one.calls or 0) - before)
        most = max(most, made - ended_by_node)
        time.sleep(PAUSE_SECONDS)
    if welcomes == 0:
        sys.exit("no connection was welcome")
    print(f"{made} hostile connections, {most} at a time, {ended_by_node} ended by the node, {welcomes} welcome with {asked} calls")


if __name__ == "__main__":
    main()
