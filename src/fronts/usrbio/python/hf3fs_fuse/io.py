"""Reading and writing files of a mount by way of USRBIO rings.

Programs find here the names that they know: memory that a multiprocessing.shared_memory.SharedMemory
holds becomes an iovec, a ring is made beside it, and slices of the iovec are read or written.

    shm = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    iov = make_iovec(shm, mount_point)
    ring = make_ioring(mount_point, 64)
    register_fd(fd)
    ring.prepare(iov[0:4096], True, fd, 0)
    for done in ring.submit().wait(min_results=1):
        print(done.result)

Failures are OSError. Several threads may use one ring if they take turns in preparing.
"""

import os
import uuid
from multiprocessing import shared_memory

import hf3fs_py_usrbio
from hf3fs_py_usrbio import (
    deregister_fd,
    extract_mount_point,
    force_fsync,
    hardlink,
    punch_hole,
    register_fd,
)

__all__ = [
    "IorPriority",
    "deregister_fd",
    "extract_mount_point",
    "force_fsync",
    "hardlink",
    "ioring",
    "iovec",
    "make_ioring",
    "make_iovec",
    "punch_hole",
    "read_file",
    "register_fd",
]


class IorPriority:
    """Values of make_ioring()'s priority, which has no effect here."""

    HIGH = -1
    NORMAL = 0
    LOW = 1


class iovec:  # pylint: disable=invalid-name
    """Shared memory that is published in a mount for as long as this object lives.

    `iov` is the native object, `link` the name under which it is published.
    """

    def __init__(self, iov, link):
        self.iov = iov
        self.link = link

    def __del__(self):
        try:
            os.unlink(self.link)
        except (AttributeError, OSError):
            pass  # It was removed by another process, or the mount is gone: nothing is left to do.

    def __len__(self):
        return len(self.iov)

    def __getitem__(self, part):
        return self.iov[part]

    def __setitem__(self, part, value):
        self.iov[part] = value


class ioring:  # pylint: disable=invalid-name
    """A ring, for reads or for writes."""

    def __init__(self, ior):
        self.ior = ior

    @staticmethod
    def size_for_entries(entries):
        """The bytes that a ring needs."""
        return hf3fs_py_usrbio.ioring.size_for_entries(entries)

    def prepare(self, iov, *args, **kwargs):
        """prepare(iov, read, fd, off, userdata=None): one operation on the slice `iov`."""
        native = iov.iov if isinstance(iov, iovec) else iov
        return self.ior.prepare(native, *args, **kwargs)

    def submit(self):
        """Hands over what was prepared."""
        return self.ior.submit()

    def wait(self, *args, **kwargs):
        """wait(*, max_results=0, min_results=0, timeout=None): the slices that are done."""
        return self.ior.wait(*args, **kwargs)


def make_iovec(shm, hf3fs_mount_point, block_size=0, numa=-1):
    """Publishes a SharedMemory in the mount and describes it for rings.

    Operations must not cross a multiple of `block_size`, if that is not 0. Pages that do not exist
    yet are taken from the NUMA node `numa` first, if that is not negative.
    """
    identity = str(uuid.uuid4())
    blocks = f".b{block_size}" if block_size > 0 else ""
    link = f"{hf3fs_mount_point}/3fs-virt/iovs/{identity}{blocks}"
    os.symlink(os.path.normpath(f"/dev/shm/{shm.name}"), link)
    try:
        native = hf3fs_py_usrbio.iovec(shm.buf, identity, hf3fs_mount_point, block_size, numa)
    except BaseException:
        os.unlink(link)
        raise
    return iovec(native, link)


def make_ioring(
    hf3fs_mount_point,
    entries,
    for_read=True,
    io_depth=0,
    priority=None,
    timeout=None,
    numa=-1,
    flags=0,
):
    """A ring of `entries` operations.

    `io_depth`: 0 starts whatever is submitted, a positive number batches of exactly so many, a
    negative one batches of up to so many. `timeout` in milliseconds ends the wait for a full batch.
    `flags`: 2 makes a read of a hole fail with ENODATA instead of returning zeros.
    """
    return ioring(
        hf3fs_py_usrbio.ioring(
            hf3fs_mount_point, entries, for_read, io_depth, priority, timeout, numa, flags
        )
    )


def _blocks_of(file, mount_point, block_size, offset, priority):
    """Yields (memoryview, offset) for each block until the end; send() moves to another offset."""
    shm = shared_memory.SharedMemory(create=True, size=block_size)
    memory = shm.buf[:block_size]
    try:
        iov = make_iovec(shm, mount_point)
        ring = make_ioring(mount_point, 1, priority=priority)
        while True:
            ring.prepare(iov[:block_size], True, file, offset)
            done = ring.submit().wait(min_results=1)[0].result
            if done < 0:
                raise OSError(-done, os.strerror(-done))
            if done == 0:
                return
            with memory[:done] as part:
                elsewhere = yield part, offset
            if elsewhere is not None:
                offset = elsewhere
            elif done < block_size:
                return
            else:
                offset += done
    finally:
        ring = iov = None
        memory.release()
        shm.close()
        shm.unlink()


def read_file(fn, hf3fs_mount_point=None, block_size=1 << 30, off=0, priority=None, cb=None):
    """Reads a file from `off` on and returns its bytes.

    With `cb` it returns None, and calls cb(memoryview, offset) for each block instead: an int that
    comes back is the offset to go on at, anything else that is true ends the reading. The memory is
    used for the next block after the call.
    """
    if hf3fs_mount_point is None:
        hf3fs_mount_point = extract_mount_point(fn)
        if hf3fs_mount_point is None:
            raise FileNotFoundError(f"read_file: {fn}: on no mount that serves USRBIO")
    pieces = []
    file = os.open(fn, os.O_RDONLY | os.O_CLOEXEC)
    try:
        register_fd(file)
        try:
            blocks = _blocks_of(file, hf3fs_mount_point, block_size, off, priority)
            elsewhere = None
            while True:
                try:
                    part, offset = blocks.send(elsewhere)
                except StopIteration:
                    break
                elsewhere = None
                if cb is None:
                    pieces.append(bytes(part))
                    continue
                answer = cb(part, offset)
                if type(answer) is int:  # pylint: disable=unidiomatic-typecheck
                    elsewhere = answer
                elif answer:
                    blocks.close()
                    break
        finally:
            deregister_fd(file)
    finally:
        os.close(file)
    return None if cb is not None else b"".join(pieces)
