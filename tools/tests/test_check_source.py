import unittest

import check_source
from cxx_source import without_comments


def messages(text, name="src/store/a.cc", core=True):
    return [message for _, message, _ in check_source.check_text(name, text, core)]


class Comments(unittest.TestCase):
    def test_blanks_comments_and_strings_and_keeps_lines(self):
        text = 'a /* x\ny */ b // c\n"str // no" d\n'
        self.assertEqual(without_comments(text).split(), ["a", "b", "d"])
        self.assertEqual(without_comments(text).count("\n"), text.count("\n"))

    def test_keeps_strings_when_asked(self):
        self.assertIn('"x.h"', without_comments('#include "x.h" // "y.h"', keep_strings=True))
        self.assertNotIn("y.h", without_comments('#include "x.h" // "y.h"', keep_strings=True))

    def test_knows_raw_strings_escapes_and_digit_separators(self):
        self.assertEqual(without_comments('R"x(" // )" )x" a').split(), ["a"])
        self.assertEqual(without_comments(r'"\"" a').split(), ["a"])
        self.assertEqual(without_comments(r"'\'' a '\"' b").split(), ["a", "b"])
        self.assertIn("pread", without_comments("int a = 1'000; pread(1'0);"))


class Size(unittest.TestCase):
    def test_warns_above_500_lines_and_fails_above_1000(self):
        def found(lines):
            return [warning for _, _, warning in check_source.check_text("src/x/a.cc", "\n" * lines, False)]

        self.assertEqual(found(500), [])
        self.assertEqual(found(501), [True])
        self.assertEqual(found(1001), [False])


class Words(unittest.TestCase):
    def test_refuses_unfinished_work_in_src(self):
        self.assertEqual(check_source.check_text("src/x/a.cc", "\n// TODO: later\n", False)[0][0], 2)
        self.assertEqual(messages("// TODOS are a word\n"), [])
        self.assertEqual(messages("// FIXME\n", name="tests/a.cc", core=False), [])


class Seams(unittest.TestCase):
    def assert_refused(self, code, seam):
        found = messages(code)
        self.assertEqual(len(found), 1, (code, found))
        self.assertIn(seam, found[0])

    def test_refuses_what_goes_around_a_seam(self):
        for code, seam in (
            ("clock_gettime(CLOCK_MONOTONIC, &t);", "Clock"),
            ("if (::clock_gettime(1, &t) != 0) {}", "Clock"),
            ("auto t = std::chrono::steady_clock::now();", "Clock"),
            ("std::this_thread::sleep_for(1s);", "Clock"),
            ("usleep(10);", "Clock"),
            ("x = std::time(nullptr);", "Clock"),
            ("int x = rand();", "Random"),
            ("return rand();", "Random"),
            ("x = std::rand() % 2;", "Random"),
            ("std::random_device device;", "Random"),
            ("n = pread(fd, p, 1, 0);", "Disk"),
            ("return pwrite(fd, p, 1, 0);", "Disk"),
            ("(void)::fsync(fd);", "Disk"),
            ("int fd = ::open(path, 0);", "Disk"),
            ("std::ifstream in(path);", "Disk"),
            ("sendmsg(fd, &m, 0);", "Net"),
        ):
            with self.subTest(code=code):
                self.assert_refused(code, seam)

    def test_leaves_our_own_methods_alone(self):
        for code in (
            "Status fsync(Inode inode);",
            "Result<File> open(Path path);",
            "disk_->pread(op);",
            "disk.pwrite(op);",
            "virtual void pread(Op* op) = 0;",
            "Status Store::rename(Name name) {",
            "uint64_t time() const;",
            "std::chrono::nanoseconds left;",
            'LOG("pread(fd) failed");',
            "// rand() would not do here",
            "operand(1); brand(2);",
        ):
            with self.subTest(code=code):
                self.assertEqual(messages(code), [])

    def test_holds_for_the_core_and_not_for_its_tests(self):
        def is_core(name):
            return check_source.is_in(name, check_source.CORE)

        self.assertTrue(is_core("src/store/a.cc"))
        self.assertTrue(is_core("src/ring/include/penstock/ring.h"))
        self.assertFalse(is_core("src/store/tests/a.cc"))
        self.assertFalse(is_core("src/store/bench/a.cc"))
        self.assertFalse(is_core("src/disk/a.cc"))
        self.assertFalse(is_core("tests/sim/a.cc"))

    def test_refuses_threads_of_the_standard_library_where_threads_are_fibers(self):
        def found(code, threaded=True):
            return [message for _, message, _ in check_source.check_text("src/x/a.cc", code, False, threaded)]

        for code in (
            "std::mutex m;",
            "std::unique_lock<std::shared_mutex> l(m);",
            "std::condition_variable_any c;",
            "std::jthread t;",
            "std::binary_semaphore s;",
            "pthread_rwlock_t l;",
        ):
            self.assertEqual(len(found(code)), 1, code)
            self.assertEqual(found(code, threaded=False), [], code)
        self.assertEqual(found("engine::Mutex m; const std::lock_guard l(m); std::unique_lock u(m);"), [])
        self.assertEqual(messages("pread(1);", name="src/disk/a.cc", core=False), [])


class Unstable(unittest.TestCase):
    def test_refuses_what_differs_between_standard_libraries(self):
        for code in ("std::shuffle(a, b, c);", "std::uniform_int_distribution<int> d;"):
            self.assertEqual(len(messages(code, name="src/apps/a.cc", core=False)), 1)


if __name__ == "__main__":
    unittest.main()
