import pathlib
import tempfile
import unittest

import check_references


class CheckReferences(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.write("src/lanes/lane.cc", "int Lane::submit(int a) { return take(a); }\n// void gone();\n")
        self.write("src/lanes/tests/lane_test.cc", "void only_tested();\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def faults(self, text):
        self.write("docs/page.md", text)
        return list(check_references.faults(self.root, "docs/page.md"))

    def test_lets_files_directories_and_names_pass_that_are_there(self):
        text = "`src/lanes/lane.cc: Lane::submit`, `src/lanes: submit()`, `src/lanes`, `src/lanes/lane.cc`"
        self.assertEqual(self.faults(text), [])

    def test_lets_a_member_pass_where_its_class_is_defined(self):
        self.write("src/lanes/lane.h", "class alignas(64) Lane final : Side {\n  int wait();\n  Ring& ring_;\n};\n")
        self.assertEqual(self.faults("`src/lanes/lane.h: Lane::wait`"), [])
        self.assertEqual(self.faults("`src/lanes/lane.h: Ring::wait`"), ["docs/page.md:1: src/lanes/lane.h has no Ring::wait"])

    def test_leaves_other_spans_alone(self):
        self.assertEqual(self.faults("`Lane::gone`, src/nowhere, `srcery/a`"), [])

    def test_finds_a_path_that_does_not_exist(self):
        self.assertEqual(
            self.faults("a\n`src/lanes/gone.cc: Lane::submit`\n"), ["docs/page.md:2: src/lanes/gone.cc does not exist"]
        )

    def test_finds_a_name_that_is_not_in_the_code(self):
        self.assertEqual(self.faults("`src/lanes/lane.cc: Lane::sub`"), ["docs/page.md:1: src/lanes/lane.cc has no Lane::sub"])
        self.assertEqual(self.faults("`src/lanes/lane.cc: gone`"), ["docs/page.md:1: src/lanes/lane.cc has no gone"])
        self.assertEqual(self.faults("`src/lanes: only_tested`"), ["docs/page.md:1: src/lanes has no only_tested"])


if __name__ == "__main__":
    unittest.main()
