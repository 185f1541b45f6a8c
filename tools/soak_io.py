"""What the soak's processes share: rings by the native interface, and slots whose content tells itself.

A slot is 4,096 bytes of a file: a magic number, which writer, which slot, which version, bytes that
follow from those, and a checksum. Whoever reads one knows whether it was ever written so.
"""

import ctypes
import os
import struct
import zlib

SLOT = 4096
MAGIC = 0x50534F414B
_HEAD = struct.Struct("<QIIQ")
READ, WRITE = 1, 2
DURABLE = 1


def make_slot(writer, slot, version):
    head = _HEAD.pack(MAGIC, writer, slot, version)
    body = head + (head * (SLOT // len(head) + 1))[: SLOT - len(head) - 4]
    return body + struct.pack("<I", zlib.crc32(body))


def version_in(content, writer, slot):
    """The version that a slot holds, 0 if it was never written, -1 if it holds what was never written."""
    if len(content) < SLOT or content == bytes(SLOT):
        return 0
    magic, of_writer, of_slot, version = _HEAD.unpack_from(content)
    good = magic == MAGIC and of_writer == writer and of_slot == slot
    return version if good and content == make_slot(writer, slot, version) else -1


class _Io(ctypes.Structure):
    _fields_ = [
        ("operation", ctypes.c_uint8), ("flags", ctypes.c_uint8), ("route", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8), ("file", ctypes.c_int32), ("offset", ctypes.c_uint64),
        ("length", ctypes.c_uint64), ("region", ctypes.c_void_p), ("region_offset", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64), ("user_data", ctypes.c_uint64),
    ]


class _Completion(ctypes.Structure):
    _fields_ = [
        ("user_data", ctypes.c_uint64), ("result", ctypes.c_int64), ("route", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 7),
    ]


class Ring:
    """One thread's session, ring and region of `slots` slots. Operations run in lists."""

    def __init__(self, library, store, slots):
        self._library = ctypes.CDLL(library)
        for name in ("penstock_region_base", "penstock_now", "penstock_last_error"):
            getattr(self._library, name).restype = ctypes.c_void_p if "base" in name else ctypes.c_uint64
        self._library.penstock_last_error.restype = ctypes.c_char_p
        self._session, self._region, self._ring = (ctypes.c_void_p() for _ in range(3))
        self._check(self._library.penstock_connect(store.encode(), ctypes.byref(self._session)))
        self._check(self._library.penstock_region_create(
            self._session, ctypes.c_size_t(slots * SLOT), ctypes.byref(self._region)))
        self._check(self._library.penstock_ring_create(self._session, 64, 1, ctypes.byref(self._ring)))
        self._base = self._library.penstock_region_base(self._region)

    def _check(self, result):
        if result < 0:
            raise OSError(-result, self._library.penstock_last_error().decode())
        return result

    def open(self, path, flags):
        return self._check(self._library.penstock_open(self._session, path.encode(), flags, 0o644))

    def run(self, operation, flags, file, parts):
        """`parts`: (slot of the file, content or None). Returns (result, content) of each."""
        for place, (_, content) in enumerate(parts):
            if content is not None:
                ctypes.memmove(self._base + place * SLOT, content, SLOT)
        for place, (slot, _) in enumerate(parts):
            io = _Io(operation, flags, 0, 0, file, slot * SLOT, SLOT, self._region, place * SLOT, 0, place)
            self._check(self._library.penstock_prepare(self._ring, ctypes.byref(io)))
        self._check(self._library.penstock_submit(self._ring))
        results = [-11] * len(parts)
        left = len(parts)
        while left:
            done = (_Completion * left)()
            deadline = self._library.penstock_now() + 60_000_000_000
            got = self._library.penstock_wait(
                self._ring, done, left, left, ctypes.c_uint64(deadline))
            for each in done[: max(got, 0)]:
                results[each.user_data] = each.result
            left -= max(got, 0)
            if got <= 0:
                raise OSError(-got or 110, "a ring operation does not end within 60 s")
        return [(result, ctypes.string_at(self._base + place * SLOT, SLOT))
                for place, result in enumerate(results)]


def figures_of(pid):
    """(resident KiB, private data KiB, descriptors) of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status if ":" in line)
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        return int(lines["VmRSS"].split()[0]), int(lines["RssAnon"].split()[0]), descriptors
    except (OSError, KeyError):
        return None
