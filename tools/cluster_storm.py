#!/usr/bin/env python3
"""What a hostile or broken machine does to a node's port, until it is ended: thousands of connections that say nothing, a
part of a handshake, or anything at all, and some that shake hands without a certificate, greet as docs/formats/tcp.md says,
as a node or as a guest, ask for ever, and read no answer.

usage: cluster_storm.py HOST PORT CLUSTER NODE TARGET COUNT
Prints a line with counts when it is ended by SIGTERM."""

import random
import resource
import signal
import socket
import ssl
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
GUESTS = 0xFFFFFFFE
GUEST = 0xFFFFFFFF
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
    who = chance.choice((GUEST, chance.randrange(1, 1 << 31)))
    service = chance.choice((CONTROLLER, GUESTS, FIRST_REPLICA + target))
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


def tls():
    """Who believes anybody, and has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["penstock/1"])
    return context


TLS = tls()


class Attacker:
    """One connection after the other, each of another kind."""

    def __init__(self, address, cluster, node, target, chance):
        self.address = address
        self.cluster = cluster
        self.node = node
        self.target = target
        self.chance = chance
        self.socket = None
        self.left = b""  # as it goes over the wire
        self.into, self.out, self.tls = None, None, None
        self.greeting = b""
        self.calls = 0  # how many it has asked
        self.welcome = False

    def connect(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.connect_ex(self.address)
        self.calls = 0
        self.welcome = False
        self.tls = None
        self.left = self.what_to_say()

    def what_to_say(self):
        kind = self.chance.randrange(5)
        if kind == 0:
            return b""
        if kind == 1:
            return self.chance.randbytes(GARBAGE_BYTES)
        self.greeting = hello(self.cluster, self.node, self.target, self.chance)
        if kind == 2:
            return self.greeting
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = TLS.wrap_bio(self.into, self.out)
        self.shake_hands()
        begun = self.out.read()
        if kind == 3:
            self.tls = None
            return begun[: self.chance.randrange(1, len(begun))]
        return begun

    def shake_hands(self):
        """Whether hands are shaken."""
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def receive(self, most):
        said = self.socket.recv(most)
        if not said:
            raise OSError("closed")
        return said

    def go_on(self):
        """Of one that speaks TLS."""
        if self.greeting:
            self.into.write(self.receive(GARBAGE_BYTES))
            if not self.shake_hands():
                return
            self.tls.write(self.greeting)
            self.greeting = b""
        elif not self.welcome:
            self.into.write(self.receive(6 + 64))
            said = self.tls.read(6)
            self.welcome = said[:4] == b"PNST" and said[5:] == bytes([WELCOME])
            if not self.welcome:
                raise OSError("refused")
        elif len(self.left) < GARBAGE_BYTES:
            # What is there stays from here on: this one reads no answer.
            self.tls.write(b"".join(request(self.calls + i, self.chance) for i in range(REQUESTS_AT_ONCE)))
            self.calls += REQUESTS_AT_ONCE

    def say(self):
        """Whether the node keeps the connection."""
        try:
            if self.left:
                self.left = self.left[self.socket.send(self.left) :]
            if self.tls:
                self.go_on()
                self.left += self.out.read()
            else:
                return self.socket.recv(1, socket.MSG_PEEK) != b""
            return True
        except (BlockingIOError, ssl.SSLWantReadError):
            if self.tls:
                self.left += self.out.read()
            return True
        except OSError:  # also all of TLS's
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
    standing, waiting = [], attackers
    while not ended:
        for _ in range(min(AT_ONCE // 2, len(waiting))):
            one = waiting.pop()
            one.connect()
            standing.append(one)
            made += 1
        for _ in range(min(AT_ONCE, len(standing))):
            at = (at + 1) % len(standing)
            one = standing[at]
            was_welcome, before = one.welcome, one.calls
            if not one.say():
                one.close()
                standing[at] = standing[-1]
                standing.pop()
                waiting.append(one)
                ended_by_node += 1
                if not standing:
                    break
            welcomes += one.welcome and not was_welcome
            asked += max(0, one.calls - before)
        most = max(most, len(standing))
        time.sleep(PAUSE_SECONDS)
    print(f"{made} hostile connections, {most} at a time, {ended_by_node} ended by the node, {welcomes} welcome as guests with {asked} calls")


if __name__ == "__main__":
    main()
