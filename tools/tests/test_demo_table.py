import unittest

from demo_table import ROWS, table


def line(name, value, reference, unit="MB/s"):
    return {"name": name, "unit": unit, "value": value, "reference": reference, "ratio": 1.5}


class DemoTable(unittest.TestCase):
    def test_fits_a_terminal_when_every_row_is_long(self):
        report = [line(name, 123456.7, 234567.8) for name, _ in ROWS]
        lines = table(report).splitlines()
        self.assertEqual(len(lines), 2 + len(ROWS))
        self.assertLessEqual(max(len(one) for one in lines), 80)

    def test_leaves_out_what_was_not_measured_beside_a_reference(self):
        report = [line("mount.create.4k", 900, None), line("ring.read.1m.random.qd16", 1500, 750)]
        lines = table(report).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("1.50 GB/s", lines[2])
        self.assertIn("750 MB/s", lines[2])

    def test_counts_what_has_no_bytes(self):
        self.assertIn("3.6 k/s", table([line("mount.create.4k", 3631, 990, "files/s")]))


if __name__ == "__main__":
    unittest.main()
