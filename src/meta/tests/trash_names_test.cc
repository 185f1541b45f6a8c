// The names of what lies in the trash.
#include "hours_clock.h"

#include <gtest/gtest.h>

#include "penstock/meta.h"

namespace penstock::meta {
namespace {

TEST(TrashNames, say_what_they_were_made_of) {
  const std::string now = "2026-11-26-08.7d";
  const TrashHour one{HoursClock::kFirstHour, 7};
  EXPECT_EQ(name_of(one), now);
  EXPECT_EQ(parse_trash_hour(now), one);
  EXPECT_EQ(over_at(one).nanoseconds, (HoursClock::kFirstHour + 1 + 7 * 24) * kHourNanoseconds);
  EXPECT_EQ(parse_trash_hour("1970-01-01-00.1d"), (TrashHour{0, 1}));
  for (const char* bad :
       {"", "2026-11-26-08", "2026-11-26-08.7", "2026-11-26-8.7d", "2026-11-26-08.07d",
        "2026-13-26-08.7d", "2026-11-31-08.7d", "2026-11-26-24.7d", "2026-11-26-08.7d ",
        "2026-11-26-08.-7d", "1969-12-31-23.1d", "2026-11-26-08.36501d", "-026-11-26-08.7d"}) {
    EXPECT_FALSE(parse_trash_hour(bad)) << bad;
  }
  const auto parsed = parse_trash_entry("5-1024-a-b.c");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->parent, InodeId(5));
  EXPECT_EQ(parsed->inode, InodeId(1024));
  EXPECT_EQ(parsed->name, "a-b.c");
  for (const char* bad : {"", "5", "5-", "5-6", "5-6-", "a-6-x", "05-6-x", "0-6-x", "5-0-x",
                          "-5-6-x", "5-6-.", "5-6-..", "99999999999999999999-1-x"}) {
    EXPECT_FALSE(parse_trash_entry(bad)) << bad;
  }
  // Cut between characters.
  std::string longest;
  while (longest.size() + 2 <= limits::kNameBytesMax) longest += "ä";
  const std::string cut = name_of(TrashEntry{InodeId(5), InodeId(1024), longest});
  EXPECT_LE(cut.size(), limits::kNameBytesMax);
  EXPECT_GE(cut.size(), limits::kNameBytesMax - 1);
  EXPECT_EQ(parse_trash_entry(cut)->name.size() % 2, 0u);
}

}  // namespace
}  // namespace penstock::meta
