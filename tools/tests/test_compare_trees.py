import os
import pathlib
import shutil
import tempfile
import unittest

from compare_trees import PIECE_BYTES, Comparison


class CompareTrees(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.source = pathlib.Path(scratch.name) / "source"
        self.copy = pathlib.Path(scratch.name) / "copy"
        (self.source / "deep").mkdir(parents=True)
        (self.source / "deep" / "long").write_bytes(b"x" * (PIECE_BYTES + 5))
        (self.source / "short").write_bytes(b"abc")
        (self.source / "empty").touch()
        (self.source / "link").symlink_to("short")
        os.link(self.source / "short", self.source / "same")
        shutil.copytree(self.source, self.copy, symlinks=True)
        os.unlink(self.copy / "same")
        os.link(self.copy / "short", self.copy / "same")

    def differences(self):
        return Comparison(self.source, self.copy, owners=True).compare().differences

    def test_finds_equal_trees_equal_and_counts_them(self):
        outcome = Comparison(self.source, self.copy, owners=True).compare()
        self.assertEqual(outcome.differences, [])
        self.assertEqual((outcome.files, outcome.directories, outcome.links), (4, 2, 1))
        self.assertEqual(outcome.bytes, PIECE_BYTES + 5 + 3 + 3)

    def test_sees_one_flipped_byte_in_a_later_piece(self):
        path = self.copy / "deep" / "long"
        path.write_bytes(b"x" * (PIECE_BYTES + 4) + b"y")
        self.assertEqual(self.differences(), [f"deep/long: other bytes from offset {PIECE_BYTES + 4}"])

    def test_sees_a_lost_tail(self):
        (self.copy / "deep" / "long").write_bytes(b"x" * PIECE_BYTES)
        self.assertIn(f"deep/long: other bytes from offset {PIECE_BYTES}", self.differences())

    def test_sees_missing_and_extra_names(self):
        (self.copy / "empty").rename(self.copy / "renamed")
        self.assertEqual(self.differences(), ["empty: missing from the copy", "renamed: only in the copy"])

    def test_sees_another_mode_type_and_target(self):
        (self.copy / "empty").chmod(0o600)
        self.assertIn("mode", self.differences()[0])
        (self.copy / "link").unlink()
        (self.copy / "link").symlink_to("empty")
        self.assertIn("link: another symlink target", self.differences())
        (self.copy / "link").unlink()
        (self.copy / "link").touch()
        self.assertIn("link: another type", self.differences())

    def test_sees_a_hard_link_that_became_a_copy(self):
        (self.copy / "same").unlink()
        (self.copy / "same").write_bytes(b"abc")
        self.assertEqual(len(self.differences()), 1)
        self.assertIn("hard link", self.differences()[0])


if __name__ == "__main__":
    unittest.main()
