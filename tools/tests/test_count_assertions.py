import pathlib
import tempfile
import unittest

import count_assertions


class CountAssertions(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_counts_macros_in_main_code_and_nothing_else(self):
        self.write("src/store/a.cc", 'ASSERT(a);\nDASSERT(b); ASSERT(c);\n// ASSERT(d)\nASSERT_EQ(e, f);\n"ASSERT(g)";\n')
        self.write("src/store/include/penstock/store.h", "static_assert(h);\n")
        self.write("src/store/include/penstock_device/a.h", "\n\n")
        self.write("src/store/tests/a_test.cc", "ASSERT(i);\n")
        self.assertEqual(count_assertions.count(self.root, "store"), (6, 3, 1))


if __name__ == "__main__":
    unittest.main()
