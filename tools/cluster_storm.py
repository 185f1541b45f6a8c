#!/usr/bin/env python3
"""What a hostile or broken machine does to a node's port, until it is ended: thousands of connections that say nothing, a
part of a greeting, or anything at all, and some that greet as docs/formats/tcp.md says, ask for ever, and read no answer.

usage: cluster_storm.py HOST PORT CLUSTER NODE COUNT
Prints a line with counts when it is ended by SIGTERM."""

import random
import resource
import signal
import socket
import struct
import sys
import time

HEADER_BYTES = 48
HELLO = 1
REQUEST = 4
PLACED_BYTES = 1 << 20
METHODS = 16
# Services: the controller's, and the first of replicas.
SERVICES = (0xFFFFFFFF, 1 << 30)
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


def hello(cluster, node, chance):
    who = chance.randrange(1000, 1 << 31)
    return frame(0, HELLO, struct.pack("<BBHIQ16sIIQ", 1, 1, 0, chance.choice(SERVICES), 0, cluster, who, node,
                                       chance.randrange(1, 1 << 60)))


def request(call, chance):
    exposure = struct.pack("<QBB6x", PLACED_BYTES, 0, 0)
    return frame(1, REQUEST, exposure + chance.randbytes(chance.randrange(0, 256)), chance.randrange(METHODS), call, 1)


class Attacker:
    """One connection after the other, each of another kind."""

    def __init__(self, address, cluster, node, chance):
        self.address = address
        self.cluster = cluster
        self.node = node
        self.chance = chance
        self.socket = None
        self.left = b""

    def connect(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.connect_ex(self.address)
        self.left = self.what_to_say()

    def what_to_say(self):
        kind = self.chance.randrange(4)
        if kind == 0:
            return b""
        if kind == 1:
            return self.chance.randbytes(GARBAGE_BYTES)
        greeting = hello(self.cluster, self.node, self.chance)
        if kind == 2:
            return greeting[: self.chance.randrange(1, len(greeting))]
        return greeting + b"".join(request(call, self.chance) for call in range(64))

    def say(self):
        """Whether the node keeps the connection."""
        try:
            if self.left:
                self.left = self.left[self.socket.send(self.left) :]
            # Only whether it was ended: what is there stays.
            return self.socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError as error:
            return isinstance(error, BlockingIOError)

    def close(self):
        self.socket.close()
        self.socket = None


def main():
    host, port, cluster, node, count = sys.argv[1:6]
    count = int(count)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, max(count + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    chance = random.Random(int(cluster, 16) + int(node))
    attackers = [Attacker((host, int(port)), bytes.fromhex(cluster), int(node), chance) for _ in range(count)]
    made = ended_by_node = most = at = 0
    while not ended:
        for _ in range(AT_ONCE):
            one = attackers[at]
            at = (at + 1) % count
            if one.socket is None:
                one.connect()
                made += 1
            elif not one.say():
                one.close()
                ended_by_node += 1
        most = max(most, made - ended_by_node)
        time.sleep(PAUSE_SECONDS)
    print(f"{made} hostile connections, {most} at a time, {ended_by_node} ended by the node")


if __name__ == "__main__":
    main()
