#include <cstdlib>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// What a process logs that begins with this format. The format of a process is chosen once.
std::string logged(const char* format, const std::function<void()>& act) {
  const test::ScratchDirectory scratch;
  const int result = test::in_child([&] {
    ::setenv("PENSTOCK_LOG_FORMAT", format, 1);
    if (!log::set_file(scratch / "log")) return 1;
    act();
    return 0;
  });
  EXPECT_EQ(result, 0);
  return test::read_file(scratch / "log");
}

TEST(Log, lines_are_text_for_people) {
  const std::string text = logged("text", [] { log::warning("disk {}: {}", 3, "\"slow\""); });
  EXPECT_THAT(text, MatchesRegex("[0-9-]+T[0-9:.]+ warning disk 3: \"slow\"\n"));
}

TEST(Log, lines_are_json_objects_on_demand) {
  const std::string text = logged("json", [] { log::error("say \"x\" \\ \n\x01 {}", "€"); });
  EXPECT_THAT(text,
              MatchesRegex("\\{\"time\":\"[0-9-]+T[0-9:.]+[+-][0-9:]+\",\"level\":\"error\",.*\n"));
  EXPECT_THAT(text, HasSubstr("\"message\":\"say \\\"x\\\" \\\\ \\u000a\\u0001 €\"}\n"));
}

TEST(Log, the_same_line_is_written_once_and_others_in_between) {
  const std::string text = logged("text", [] {
    for (int i = 0; i < 100; ++i) log::warning("again");
    log::warning("other");
    log::info("not told");
    log::warning("again");
  });
  EXPECT_THAT(text, MatchesRegex("[^\n]*again\n[^\n]*other\n"));
}

}  // namespace
}  // namespace penstock
