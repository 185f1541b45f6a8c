#include "labels.h"

#include <gtest/gtest.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

TEST(Labeller, gives_whole_lines_however_they_were_cut) {
  const std::string text = "one\n\nthree\nno end";
  for (size_t cut = 1; cut < text.size(); ++cut) {
    Labeller labeller(12);
    std::string lines;
    for (size_t at = 0; at < text.size(); at += cut) {
      labeller.take(std::string_view(text).substr(at, cut), &lines);
    }
    EXPECT_EQ(lines, "[12] one\n[12] \n[12] three\n");
    labeller.finish(&lines);
    labeller.finish(&lines);
    EXPECT_EQ(lines, "[12] one\n[12] \n[12] three\n[12] no end\n");
  }
}

TEST(Labeller, cuts_a_line_that_does_not_end) {
  Labeller labeller(0);
  std::string lines;
  const std::string piece(limits::kLineBytesMax, 'x');
  labeller.take(piece, &lines);
  EXPECT_EQ(lines, "") << "its end may be the next byte";
  labeller.take("\n" + piece + "yz\n", &lines);
  EXPECT_EQ(lines, "[0] " + piece + "\n[0] " + piece + "\n[0] yz\n");
}

}  // namespace
}  // namespace penstock::job
