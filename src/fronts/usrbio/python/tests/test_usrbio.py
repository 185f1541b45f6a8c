"""The package hf3fs_fuse against a node of its own with a mount.

Exits with 77 where there is nothing to test: the module was not built, or nothing can be mounted.
With GTEST_OUTPUT=json:FILE it reports single tests there, in the form that tools/run_tests.py reads.
"""

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from multiprocessing import shared_memory

SKIPPED = 77

try:
    from hf3fs_fuse import io as hf3fs_io
except ImportError as error:
    print(f"skipped: hf3fs_fuse cannot be imported: {error}")
    sys.exit(SKIPPED)

SIZE = 1 << 20
SECONDS = 30
LIMIT = datetime.timedelta(seconds=SECONDS)


class Node:
    """`penstock up` with a mount, in a directory of its own."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="penstock-python-")).resolve()
        self.mount = self.root / "mount"
        self.mount.mkdir()
        program = os.environ.get("PENSTOCK_PROGRAM", "penstock")
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [program, "up", self.root / "store", "--mount", self.mount, "--capacity", str(1 << 29)],
            stdout=subprocess.PIPE,
            text=True,
        )
        said = []
        for line in self.process.stdout:
            said.append(line)
            if "Running;" in line:
                return
        raise RuntimeError(f"{program} up: {''.join(said)}")

    def stop(self):
        """Ends it and removes everything."""
        self.process.terminate()
        self.process.wait(SECONDS)
        self.process.stdout.close()
        shutil.rmtree(self.root)


class UsrbioTest(unittest.TestCase):
    """Each test has a file, shared memory and whatever rings it makes."""

    @classmethod
    def setUpClass(cls):
        cls.node = Node()
        cls.addClassCleanup(cls.node.stop)
        cls.mount = str(cls.node.mount)

    def setUp(self):
        self.path = self.node.mount / self.id().rsplit(".", maxsplit=1)[-1]
        self.content = os.urandom(SIZE)
        self.path.write_bytes(self.content)
        self.file = os.open(self.path, os.O_RDWR)
        self.addCleanup(os.close, self.file)
        hf3fs_io.register_fd(self.file)
        self.addCleanup(hf3fs_io.deregister_fd, self.file)
        self.shm = shared_memory.SharedMemory(create=True, size=SIZE)
        self.addCleanup(self.shm.unlink)
        self.addCleanup(self.shm.close)
        self.iov = hf3fs_io.make_iovec(self.shm, self.mount)

    def tearDown(self):
        self.iov = None

    def test_mount_point_is_extracted(self):
        self.assertEqual(hf3fs_io.extract_mount_point(str(self.path)), self.mount)
        self.assertIsNone(hf3fs_io.extract_mount_point("/usr"))

    def test_slices_are_read(self):
        ring = hf3fs_io.make_ioring(self.mount, 16)
        self.assertEqual(ring.ior.entries, 16)
        for i in range(16):
            part = self.iov[i * 4096 : (i + 1) * 4096]
            self.assertIs(ring.prepare(part, True, self.file, i * 8192, userdata=("part", i)), ring.ior)
        done = ring.submit().wait(min_results=16, timeout=LIMIT)
        self.assertEqual(sorted(part.userdata[1] for part in done), list(range(16)))
        for part in done:
            i = part.userdata[1]
            self.assertEqual(part.result, 4096)
            self.assertEqual(part.base_off, i * 4096)
            self.assertEqual(bytes(part), self.content[i * 8192 : i * 8192 + 4096])

    def test_slices_are_written(self):
        ring = hf3fs_io.make_ioring(self.mount, 4, for_read=False)
        self.iov[0:5] = b"hello"
        ring.prepare(self.iov[0:5], False, self.file, 100)
        (done,) = ring.submit().wait(min_results=1, timeout=LIMIT)
        self.assertEqual(done.result, 5)
        self.assertEqual(self.path.read_bytes()[98:107], self.content[98:100] + b"hello" + self.content[105:107])

    def test_slice_of_a_buffer_inside_is_found(self):
        part = self.shm.buf[8192:12288]
        self.addCleanup(part.release)
        self.assertEqual(self.iov.iov.slice_by(part).base_off, 8192)
        with self.assertRaises(IndexError):
            self.iov.iov.slice_by(bytearray(10))
        with self.assertRaises(ValueError):
            self.iov[0:10:2]  # pylint: disable=expression-not-assigned
        with self.assertRaises(ValueError):
            self.iov[0:4] = b"hello"

    def test_memory_has_the_buffer_protocol(self):
        self.shm.buf[0:4] = b"abcd"
        with memoryview(self.iov[1:3]) as view:
            self.assertEqual(view.tobytes(), b"bc")
            view[0:1] = b"B"
        self.assertEqual(bytes(self.shm.buf[0:4]), b"aBcd")
        self.assertEqual(len(self.iov), SIZE)

    def test_wait_gives_what_is_there_when_the_time_has_come(self):
        ring = hf3fs_io.make_ioring(self.mount, 4)
        self.assertEqual(ring.wait(), [])
        ring.prepare(self.iov[:10], True, self.file, 0)
        soon = datetime.timedelta(milliseconds=20)
        self.assertEqual(ring.wait(min_results=1, timeout=soon), [], "it was not submitted")
        ring.submit()
        self.assertEqual([part.result for part in ring.wait(min_results=1, timeout=LIMIT)], [10])

    def test_end_of_the_file_is_a_short_read(self):
        ring = hf3fs_io.make_ioring(self.mount, 4)
        ring.prepare(self.iov[:100], True, self.file, SIZE - 10)
        ring.prepare(self.iov[100:200], True, self.file, SIZE, userdata="behind")
        results = {d.userdata: d.result for d in ring.submit().wait(min_results=2, timeout=LIMIT)}
        self.assertEqual(results, {None: 10, "behind": 0})

    def test_mistakes_are_errors_of_the_system(self):
        ring = hf3fs_io.make_ioring(self.mount, 1)
        with self.assertRaises(OSError):
            ring.prepare(self.iov[:10], False, self.file, 0)  # a ring for reads
        with self.assertRaises(OSError):
            ring.prepare(self.iov[:10], True, 12345, 0)  # not registered
        with self.assertRaises(OSError):
            hf3fs_io.register_fd(self.file)  # twice
        with self.assertRaises(OSError):
            hf3fs_io.make_ioring("/usr", 1)
        with self.assertRaises(OSError):
            hf3fs_io.make_ioring(self.mount, 1, timeout=-1)

    def test_iovec_takes_its_link_away(self):
        link = self.iov.link
        self.assertEqual(os.readlink(link), f"/dev/shm/{self.shm.name}")
        self.iov = None
        self.assertFalse(os.path.lexists(link))

    def test_ring_ends_with_operations_in_flight(self):
        ring = hf3fs_io.make_ioring(self.mount, 8)
        for i in range(8):
            ring.prepare(self.iov[i * 4096 : (i + 1) * 4096], True, self.file, 0)
        ring.submit()
        del ring
        ring = hf3fs_io.make_ioring(self.mount, 8)
        ring.ior.destroy()
        with self.assertRaises(OSError):
            ring.submit()

    def test_several_threads_wait_on_one_ring(self):
        ring = hf3fs_io.make_ioring(self.mount, 8)
        got = []

        def wait_for_two():
            for _ in range(2):
                got.extend(ring.wait(max_results=1, min_results=1, timeout=LIMIT))

        threads = [threading.Thread(target=wait_for_two) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(8):
            ring.prepare(self.iov[i * 512 : (i + 1) * 512], True, self.file, 0, userdata=i)
        ring.submit()
        for thread in threads:
            thread.join(SECONDS)
        self.assertEqual(sorted(part.userdata for part in got), list(range(8)))

    def test_file_is_read_whole(self):
        name = str(self.path)
        self.assertEqual(hf3fs_io.read_file(name, block_size=300_000), self.content)
        self.assertEqual(hf3fs_io.read_file(name, self.mount, SIZE, off=SIZE - 5), self.content[-5:])
        self.assertEqual(hf3fs_io.read_file(name, block_size=4096, off=SIZE + 5), b"")

    def test_file_is_read_as_the_callback_says(self):
        seen = []

        def jump(part, offset):
            seen.append((offset, bytes(part)))
            return 500_000 if offset == 0 else offset == 500_000

        name = str(self.path)
        self.assertIsNone(hf3fs_io.read_file(name, block_size=1000, cb=jump))
        self.assertEqual(seen, [(0, self.content[:1000]), (500_000, self.content[500_000:501_000])])

    def test_links_and_holes_are_made(self):
        other = str(self.path) + ".link"
        hf3fs_io.hardlink(str(self.path), other)
        self.assertTrue(os.path.samefile(self.path, other))
        with self.assertRaises(FileExistsError):
            hf3fs_io.hardlink(str(self.path), other)
        hf3fs_io.punch_hole(other, [0, 10_000], [4096, 20_000])
        hf3fs_io.punch_hole(self.file, [4096], [8192])
        zeros = self.path.read_bytes()
        self.assertEqual(zeros[:8192], bytes(8192))
        self.assertEqual(zeros[8192:10_000], self.content[8192:10_000])
        self.assertEqual(zeros[10_000:20_000], bytes(10_000))
        self.assertEqual(zeros[20_000:], self.content[20_000:])
        with self.assertRaises(ValueError):
            hf3fs_io.punch_hole(self.file, [0], [])

    def test_force_fsync_works_on_files_of_the_mount(self):
        self.assertEqual(hf3fs_io.force_fsync(self.file), 0)
        with tempfile.TemporaryFile() as elsewhere:
            with self.assertRaises(OSError):
                hf3fs_io.force_fsync(elsewhere.fileno())


class Report(unittest.TextTestResult):
    """Keeps what tools/run_tests.py counts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tests = []

    def stopTest(self, test):
        super().stopTest(test)
        self.tests.append(test)

    def as_googletest(self):
        """The report of a GoogleTest program with these tests."""
        bad = {str(test) for test, _ in self.failures + self.errors}
        left = {str(test) for test, _ in self.skipped}
        tests = []
        for test in self.tests:
            entry = {"name": test.id(), "result": "SKIPPED" if str(test) in left else "COMPLETED"}
            if str(test) in bad:
                entry["failures"] = [{"failure": "see the output"}]
            tests.append(entry)
        return {"testsuites": [{"name": "usrbio_python", "testsuite": tests}]}


def main():
    """Runs all tests."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: /dev/fuse cannot be opened")
        sys.exit(SKIPPED)
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(UsrbioTest)
    result = unittest.TextTestRunner(resultclass=Report, verbosity=2).run(tests)
    kind, _, file = os.environ.get("GTEST_OUTPUT", "").partition(":")
    if kind == "json":
        path = pathlib.Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result.as_googletest()), encoding="utf-8")
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
