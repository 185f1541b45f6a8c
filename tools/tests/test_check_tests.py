import pathlib
import tempfile
import unittest

import check_tests


class CheckTests(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def faults(self):
        return [
            f"{path.relative_to(self.root)}:{line}: {message}"
            for path, line, message in check_tests.check(self.root)
        ]

    def assert_one_fault(self, start, part):
        faults = self.faults()
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(start), faults[0])
        self.assertIn(part, faults[0])

    def test_accepts_every_kind_of_assertion(self):
        for body in ("EXPECT_EQ(a, b);", "ASSERT_TRUE(a);", "EXPECT_THAT(a, b);", "if (a) FAIL() << b;",
                     "if (a) { ADD_FAILURE(); }", "ASSERT_NO_FATAL_FAILURE(act());", "EXPECT_CALL(a, b());"):
            with self.subTest(body):
                self.write("src/base/tests/a_test.cc", f"TEST(A, b) {{\n  {body}\n}}\n")
                self.assertEqual(self.faults(), [])

    def test_refuses_a_test_without_one(self):
        for kind in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST"):
            with self.subTest(kind):
                self.write("src/base/tests/a_test.cc", f"int x;\n{kind}(A, b) {{\n  act();\n}}\n")
                self.assert_one_fault("src/base/tests/a_test.cc:2:", "A.b asserts nothing")

    def test_takes_no_success_no_skip_and_no_comment_for_an_assertion(self):
        self.write("tests/posix/a_test.cc",
                   'TEST(A, b) {\n  SUCCEED();\n  if (a) GTEST_SKIP();\n  // EXPECT_EQ(a, b)\n  f("EXPECT_EQ(a, b)");\n}\n')
        self.assert_one_fault("tests/posix/a_test.cc:1:", "A.b asserts nothing")

    def test_finds_which_of_several_tests_it_is(self):
        self.write("src/base/tests/a_test.cc",
                   "TEST(A, b) {\n  EXPECT_EQ(a, b);\n}\n\nTEST(A, c) {\n  if (x) { act(); }\n}\n\nTEST(A, d) { FAIL(); }\n")
        self.assert_one_fault("src/base/tests/a_test.cc:5:", "A.c asserts nothing")

    def test_follows_calls_of_functions_that_assert(self):
        self.write("src/base/tests/a_test.cc", "void deep(int a) {\n  EXPECT_EQ(a, 1);\n}\n"
                   "int middle() const { deep(1); }\nTEST(A, b) {\n  middle();\n}\n")
        self.assertEqual(self.faults(), [])

    def test_follows_them_into_what_a_test_sees(self):
        self.write("src/base/tests/a_test.cc", '#include "rig.h"\nTEST(A, b) {\n  check_all();\n}\n')
        self.assert_one_fault("src/base/tests/a_test.cc:2:", "A.b asserts nothing")
        helper = "inline void check_all() { EXPECT_TRUE(a); }\n"
        for name in ("src/base/tests/rig.h", "src/base/tests/rig.cc", "src/testing/base/files.cc"):
            with self.subTest(name):
                self.write(name, helper)
                self.assertEqual(self.faults(), [])
                self.write(name, "")
        self.write("src/store/tests/rig.h", '#include "parts.h"\n')
        self.write("src/store/tests/parts.h", helper)
        self.assertEqual(self.faults(), [], "as -idirafter finds it")

    def test_follows_no_call_to_a_function_of_another_test(self):
        self.write("src/base/tests/a_test.cc", "TEST(A, b) {\n  act();\n}\n")
        self.write("src/base/tests/other_test.cc", "void act() { FAIL(); }\nTEST(B, c) { act(); }\n")
        self.assert_one_fault("src/base/tests/a_test.cc:1:", "A.b asserts nothing")

    def test_takes_no_constructor_for_an_assertion(self):
        self.write("src/base/tests/a_test.cc", "struct Rig {\n  Rig() { EXPECT_TRUE(a); }\n};\nTEST(A, b) {\n  Rig rig;\n  Rig(1);\n}\n")
        self.assert_one_fault("src/base/tests/a_test.cc:4:", "A.b asserts nothing")


if __name__ == "__main__":
    unittest.main()
