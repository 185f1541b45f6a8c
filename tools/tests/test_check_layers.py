import pathlib
import tempfile
import unittest

import check_layers

LAYERS = """# comment
base        isa-l/ only.h
testing/base
disk        liburing.h
store
testing/node
fronts/base
fronts/fuse fuse3/
fronts/usrbio
apps        CLI/
"""


class CheckLayers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.write("src/layers.txt", LAYERS)
        for name in ("base", "testing/base", "testing/node", "disk", "store", "fronts/base", "fronts/fuse", "fronts/usrbio", "apps"):
            self.write(f"src/{name}/CMakeLists.txt", "")
        self.write("src/base/include/penstock/base.h", '#include "penstock/base/part.h"\n')
        self.write("src/base/include/penstock/base/part.h", "")
        self.write("src/disk/include/penstock/disk.h", '#include "penstock/base.h"\n')
        self.write("src/testing/base/include/penstock/testing.h", '#include "penstock/base.h"\n')
        self.write("src/testing/node/include/penstock/testing_node.h", '#include "penstock/testing.h"\n')
        self.write("src/fronts/usrbio/include/hf3fs_usrbio.h", "")
        self.write("src/fronts/fuse/include/penstock/fuse.h", "")
        self.write("src/fronts/base/include/penstock/front.h", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def faults(self):
        return [
            f"{path.relative_to(self.root)}:{line}: {message}"
            for path, line, message in check_layers.check(self.root)
        ]

    def assert_one_fault(self, start, part):
        faults = self.faults()
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(start), faults[0])
        self.assertIn(part, faults[0])

    def test_accepts_arrows_that_point_up_the_list(self):
        self.write("src/store/a.cc", '#include "penstock/disk.h"\n#include "penstock/base.h"\n')
        self.write("src/apps/main.cc", '#include "penstock/fuse.h"\n#include "hf3fs_usrbio.h"\n')
        self.write("tests/crash/a.cc", '#include "penstock/fuse.h"\n#include <fuse3/fuse.h>\n')
        self.assertEqual(self.faults(), [])

    def test_refuses_an_arrow_that_points_down_the_list(self):
        self.write("src/base/a.cc", '\n#include "penstock/disk.h"\n')
        self.assert_one_fault("src/base/a.cc:2:", "base may not use disk")

    def test_refuses_a_cycle(self):
        self.write("src/base/include/penstock/base.h", '#include "penstock/disk.h"\n')
        self.assert_one_fault("src/base/include/penstock/base.h:1:", "base may not use disk")

    def test_refuses_a_generated_header_of_a_library_below(self):
        self.write("src/base/a.cc", '#include "penstock/store.h"\n')
        self.assert_one_fault("src/base/a.cc:1:", "base may not use store")

    def test_refuses_one_front_using_another(self):
        self.write("src/fronts/usrbio/a.cc", '#include "penstock/fuse.h"\n')
        self.assert_one_fault("src/fronts/usrbio/a.cc:1:", "fronts never use one another")

    def test_accepts_what_fronts_have_in_common(self):
        self.write("src/fronts/usrbio/a.cc", '#include "penstock/front.h"\n')
        self.write("src/fronts/usrbio/CMakeLists.txt", "penstock_library(usrbio DEPENDS base front)\n")
        self.write("src/disk/CMakeLists.txt", "penstock_library(disk DEPENDS base)\n")
        self.assertEqual(self.faults(), [])

    def test_refuses_what_fronts_have_in_common_below_them(self):
        self.write("src/store/CMakeLists.txt", "penstock_library(store DEPENDS base front)\n")
        self.assert_one_fault("src/store/CMakeLists.txt:1:", "store may not use fronts/base")

    def test_refuses_that_fronts_common_part_uses_one(self):
        self.write("src/fronts/base/a.cc", '#include "penstock/fuse.h"\n')
        self.assert_one_fault("src/fronts/base/a.cc:1:", "fronts never use one another")

    def test_refuses_a_part_of_another_library(self):
        self.write("src/disk/a.cc", '#include "penstock/base/part.h"\n')
        self.assert_one_fault("src/disk/a.cc:1:", "include its umbrella")

    def test_accepts_a_library_s_own_parts_and_private_files(self):
        self.write("src/base/private.h", "")
        self.write("src/base/deep/other.h", "")
        self.write("src/base/tests/a.cc", '#include "private.h"\n#include "deep/other.h"\n')
        self.write("src/base/a.cc", '#include "private.h"\n#include "penstock/base/part.h"\n')
        self.assertEqual(self.faults(), [])

    def test_refuses_a_private_file_of_another_library(self):
        self.write("src/disk/private.h", "")
        self.write("src/store/tests/a.cc", '#include "../../disk/private.h"\n')
        self.assert_one_fault("src/store/tests/a.cc:1:", "private file of disk")

    def test_refuses_a_private_file_from_the_tests_of_the_house(self):
        self.write("src/disk/private.h", "")
        self.write("tests/sim/a.cc", '#include "../../src/disk/private.h"\n')
        self.assert_one_fault("tests/sim/a.cc:1:", "private file of disk")

    def test_refuses_an_outside_header_of_another_library(self):
        self.write("src/store/a.cc", "#include <liburing.h>\n")
        self.assert_one_fault("src/store/a.cc:1:", "belongs to disk alone")

    def test_accepts_an_outside_header_in_its_own_library(self):
        self.write("src/disk/a.cc", "#include <liburing.h>\n")
        self.write("src/apps/a.cc", "#include <CLI/CLI.hpp>\n")
        self.assertEqual(self.faults(), [])

    def test_takes_outside_prefixes_at_a_slash_only(self):
        self.write("src/store/a.cc", "#include <only.hpp>\n")
        self.assertEqual(self.faults(), [])
        self.write("src/store/a.cc", "#include <only.h>\n")
        self.assert_one_fault("src/store/a.cc:1:", "belongs to base alone")

    def test_ignores_includes_in_comments(self):
        self.write("src/base/a.cc", '// #include "penstock/disk.h"\n/*\n#include "penstock/disk.h"\n*/\n')
        self.assertEqual(self.faults(), [])

    def test_refuses_a_link_that_points_down_the_list(self):
        self.write("src/base/CMakeLists.txt", "target_link_libraries(penstock_base\n  penstock_disk)\n")
        self.assert_one_fault("src/base/CMakeLists.txt:2:", "base may not use disk")

    def test_refuses_a_dependency_that_points_down_the_list(self):
        self.write("src/disk/CMakeLists.txt", "penstock_library(disk\n  SOURCES a.cc\n  DEPENDS base store\n)\n")
        self.assert_one_fault("src/disk/CMakeLists.txt:3:", "disk may not use store")

    def test_accepts_the_test_library_in_tests(self):
        self.write("src/base/tests/a.cc", '#include "penstock/testing.h"\n')
        self.write("src/base/CMakeLists.txt", "penstock_test(base_tests LABEL unit LINK penstock_testing_counting)\n")
        self.write("src/store/fuzz/a.cc", '#include "penstock/testing_node.h"\n')
        self.write("src/store/CMakeLists.txt", "penstock_fuzz(store LINK penstock_testing_node)\n")
        self.write("src/fronts/fuse/tests/a.cc", '#include "penstock/testing_node.h"\n')
        self.write("src/apps/CMakeLists.txt", "target_link_libraries(apps_tests PRIVATE penstock_testing)\n")
        self.write("tests/crash/a.cc", '#include "penstock/testing_node.h"\n')
        self.write("tests/crash/CMakeLists.txt", "target_link_libraries(any penstock_testing_node)\n")
        self.assertEqual(self.faults(), [])

    def test_refuses_the_test_library_in_production_code(self):
        for path in ("src/store/a.cc", "src/store/include/penstock/store.h", "src/disk/bench/a.cc", "bench/a.cc",
                     "examples/a.cc"):
            with self.subTest(path):
                self.write(path, '\n#include "penstock/testing.h"\n')
                self.assert_one_fault(f"{path}:2:", "testing/base is for tests only")
                self.write(path, "")

    def test_refuses_that_production_code_links_the_test_library(self):
        for text in ("penstock_library(store\n  PRIVATE penstock_testing)\n",
                     "target_link_libraries(penstock_store\n  PRIVATE penstock_testing_counting)\n",
                     "penstock_test(store_tests LINK penstock_store)\nadd_executable(any)\n"
                     "target_link_libraries(any PRIVATE penstock_testing)\n"):
            with self.subTest(text):
                self.write("src/store/CMakeLists.txt", text)
                line = text[: text.index("penstock_testing")].count("\n") + 1
                self.assert_one_fault(f"src/store/CMakeLists.txt:{line}:", "testing/base is for tests only")
        self.write("src/store/CMakeLists.txt", "")
        for directory in ("bench", "examples"):
            with self.subTest(directory):
                self.write(f"{directory}/CMakeLists.txt", "target_link_libraries(any penstock_testing_node)\n")
                self.assert_one_fault(f"{directory}/CMakeLists.txt:1:", "testing/node is for tests only")
                self.write(f"{directory}/CMakeLists.txt", "")

    def test_refuses_a_part_of_the_test_library_that_stands_behind_others(self):
        self.write("src/base/tests/a.cc", '#include "penstock/testing_node.h"\n')
        self.assert_one_fault("src/base/tests/a.cc:1:", "tests of base may not use testing/node, which stands behind store")
        self.write("src/base/tests/a.cc", "")
        self.write("src/disk/CMakeLists.txt", "penstock_test(disk_tests LINK penstock_testing_node)\n")
        self.assert_one_fault("src/disk/CMakeLists.txt:1:", "tests of disk may not use testing/node")

    def test_holds_the_test_library_to_the_order(self):
        self.write("src/testing/base/a.cc", '#include "penstock/disk.h"\n')
        self.assert_one_fault("src/testing/base/a.cc:1:", "testing/base may not use disk")
        self.write("src/testing/base/a.cc", '#include "penstock/testing_node.h"\n')
        self.assert_one_fault("src/testing/base/a.cc:1:", "testing/base may not use testing/node")
        self.write("src/testing/base/a.cc", "")
        self.write("src/testing/node/a.cc", '#include "penstock/store.h"\n#include "penstock/testing.h"\n')
        self.assertEqual(self.faults(), [])

    def test_refuses_a_directory_that_is_not_listed(self):
        self.write("src/utils/a.cc", "")
        self.assert_one_fault("src/utils/a.cc:1:", "not in src/layers.txt")


if __name__ == "__main__":
    unittest.main()
