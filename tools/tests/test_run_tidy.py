import pathlib
import tempfile
import unittest

import run_tidy


class RunTidy(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve()
        self.write(".clang-tidy", "Checks: x\n")
        self.write("src/base/include/penstock/base.h", '#include "penstock/base/part.h"\n')
        self.write("src/base/include/penstock/base/part.h", "int part;\n")
        self.write("src/fronts/fuse/private.h", "")
        self.write("src/fronts/fuse/a.cc", '#include "private.h"\n#include "penstock/base.h"\n#include <map>\n')
        self.entry = {"file": str(self.root / "src/fronts/fuse/a.cc"), "command": "g++ -c a.cc"}

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def key(self):
        return run_tidy.key(self.root, run_tidy.Reach(self.root), self.entry)

    def test_reaches_private_and_public_headers(self):
        reached = run_tidy.Reach(self.root).all(self.root / "src/fronts/fuse/a.cc")
        names = [path.relative_to(self.root).as_posix() for path in reached]
        self.assertEqual(
            names,
            [
                "src/base/include/penstock/base/part.h",
                "src/base/include/penstock/base.h",
                "src/fronts/fuse/a.cc",
                "src/fronts/fuse/private.h",
            ],
        )

    def test_looks_again_when_anything_it_depends_on_changed(self):
        keys = {self.key()}
        self.assertEqual(keys, {self.key()})
        for name in ("src/base/include/penstock/base/part.h", "src/fronts/fuse/a.cc", ".clang-tidy"):
            self.write(name, "// changed\n" + (self.root / name).read_text())
            self.assertNotIn(self.key(), keys, name)
            keys.add(self.key())
        self.entry["command"] += " -O2"
        self.assertNotIn(self.key(), keys)

    def test_looks_at_sources_and_at_tests_when_asked(self):
        def wanted(name, everything):
            return run_tidy.wanted(self.root, [{"file": str(self.root / name)}], everything)

        self.assertTrue(wanted("src/base/a.cc", False))
        self.assertFalse(wanted("src/base/tests/a_test.cc", False))
        self.assertTrue(wanted("src/base/tests/a_test.cc", True))
        self.assertFalse(wanted("bench/a.cc", False))
        self.assertFalse(wanted("build/dev/src/wire/a.pb.cc", True))
        self.assertFalse(run_tidy.wanted(self.root, [{"file": "/usr/include/a.cc"}], True))

    def together(self, target, *names):
        name = f"build/dev/src/CMakeFiles/{target}.dir/Unity/unity_0_cxx.cxx"
        self.write(name, "".join(f'#include "{self.root / source}"\n' for source in names))
        return {"file": str(self.root / name), "command": f"g++ -c {name}"}

    def test_sources_compiled_together_are_looked_at_together_and_once(self):
        self.write("src/fronts/fuse/b.cc", "")
        entry = self.together("fuse", "src/fronts/fuse/a.cc", "src/fronts/fuse/b.cc")
        alike = self.together("shared", "src/fronts/fuse/a.cc", "src/fronts/fuse/b.cc")
        tests = self.together("tests", "src/fronts/fuse/tests/a_test.cc")
        chosen = run_tidy.wanted(self.root, [entry, alike, tests], False)
        names = [[path.name for path in ours] for ours in chosen]
        self.assertEqual(names, [["a.cc", "b.cc"]])

    def test_looks_again_when_one_of_those_together_changed(self):
        self.write("src/fronts/fuse/b.cc", "")
        self.entry = self.together("fuse", "src/fronts/fuse/a.cc", "src/fronts/fuse/b.cc")
        before = self.key()
        self.write("src/fronts/fuse/b.cc", "int changed;\n")
        self.assertNotEqual(self.key(), before)


if __name__ == "__main__":
    unittest.main()
