import pathlib
import tempfile
import unittest

import list_limits

HEADER = """// Bounds.

using namespace penstock::limits;

// One sentence. Another one.
inline constexpr uint64_t kSlotBytes = 16 * kMiB;
inline constexpr std::chrono::microseconds kSpin{20};

inline constexpr uint32_t kOpsMax = 1024;  // at a time
static_assert(kOpsMax > 1);
// A product, over
// two lines.
inline constexpr uint64_t kAllBytes =
    kOpsMax * kSlotBytes;
inline constexpr auto kPause = std::chrono::seconds(10);
"""


class ListLimits(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def test_finds_name_value_and_the_first_sentence_of_the_reason(self):
        self.assertEqual(
            list(list_limits.constants(HEADER)),
            [
                ("kSlotBytes", "16 MiB", "One sentence"),
                ("kSpin", "20 µs", "″"),
                ("kOpsMax", "1024", "at a time"),
                ("kAllBytes", "`kOpsMax * kSlotBytes`", "A product, over two lines"),
                ("kPause", "10 s", "″"),
            ],
        )

    def test_page_has_the_libraries_of_the_list_in_its_order(self):
        for name, text in {
            "layers.txt": "base\nfronts/base\nfronts/fuse\n",
            "fronts/fuse/limits.h": "inline constexpr int kB = 2;\n",
            "base/include/penstock/base/limits.h": "inline constexpr int kA = 1;\n",
            "base/store.h": "inline constexpr int kNot = 3;\n",
        }.items():
            path = self.root / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        page = list_limits.page(self.root)
        self.assertIn("## base\n\n[src/base/include/penstock/base/limits.h](../src/base/include/penstock/base/limits.h)\n", page)
        self.assertLess(page.index("| `kA` | 1 |"), page.index("## fronts/fuse"))
        self.assertIn("| `kB` | 2 |", page)
        self.assertNotIn("kNot", page)


if __name__ == "__main__":
    unittest.main()
