// Lists and files of hosts, and how many ranks each has.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::job::test {
namespace {

using testing::HasSubstr;

std::string text_of(const Outcome<std::vector<Host>>& hosts) {
  if (!hosts) return hosts.error().message;
  std::string text;
  for (const Host& host : *hosts) {
    text += host.name + (host.slots ? "=" + std::to_string(*host.slots) : "") + " ";
  }
  return text;
}

TEST(Hosts, are_read_from_a_list) {
  EXPECT_EQ(text_of(parse_hosts("a")), "a ");
  EXPECT_EQ(text_of(parse_hosts("a,me@b:2,,10.0.0.1:3,")), "a me@b=2 10.0.0.1=3 ");
  EXPECT_EQ(text_of(parse_hosts("[fe80::1]:4,[::1],fe80::2")), "fe80::1=4 ::1 fe80::2 ");
  for (const char* bad : {"a:0", "a:x", "a:", ":3", "a:65537", "-oProxyCommand=x", "a b", "[::1",
                          "[::1]3", "a\tb", "[]", "a:-1"}) {
    EXPECT_THAT(text_of(parse_hosts(bad)), HasSubstr("is no host: ")) << bad;
  }
  EXPECT_THAT(text_of(parse_hosts(",")), HasSubstr("at least one host"));
}

TEST(Hosts, are_read_from_a_file_as_of_mpirun_and_of_hydra) {
  EXPECT_EQ(text_of(parse_host_file("# all\n\n a \nb:2 # two\n\tc slots=3 max_slots=8\r\n"
                                    "d slots = 4\ne",
                                    "f")),
            "a b=2 c=3 d=4 e ");
  EXPECT_THAT(text_of(parse_host_file("a\nb speed=3\n", "f")), HasSubstr("f, line 2: 'speed=3'"));
  EXPECT_THAT(text_of(parse_host_file("a slots=\n", "f")), HasSubstr("slots are 1 to 65536"));
  EXPECT_THAT(text_of(parse_host_file("a slots=2 max_slots=no\n", "f")), HasSubstr("line 1"));
  EXPECT_THAT(text_of(parse_host_file("# none\n", "f")), HasSubstr("f: no host is in it"));
}

std::string placed(const std::string& hosts, const Spread& spread) {
  const auto shares = place_ranks(*parse_hosts(hosts), spread, [](const std::string& name) {
    return name == "here" || name == "also";
  });
  if (!shares) return shares.error().message;
  std::string text;
  for (const NodeShare& share : *shares) {
    text += share.host + (share.here ? "!" : "") + " " + std::to_string(share.ranks) + ", ";
  }
  return text;
}

Spread of(uint32_t size) {
  return {.size = size};
}

TEST(Placement, takes_slots_in_the_order_of_hosts) {
  EXPECT_EQ(placed("a:4,b:4", of(6)), "a 4, b 2, ");
  EXPECT_EQ(placed("a:4,b:4", of(3)), "a 3, ") << "b has nothing to do";
  EXPECT_EQ(placed("a:4,b:2", {}), "a 4, b 2, ");
  EXPECT_THAT(placed("a:2,b:2", of(5)),
              HasSubstr("5 processes, and the 2 hosts have slots for 4 of them"));
  EXPECT_THAT(placed("a:2", of(5)), HasSubstr("the host has slots for 2 of them"));
}

TEST(Placement, divides_where_no_slots_are_said) {
  EXPECT_EQ(placed("a,b", of(8)), "a 4, b 4, ");
  EXPECT_EQ(placed("a,b,c", of(5)), "a 2, b 2, c 1, ");
  EXPECT_EQ(placed("a,b,c", of(2)), "a 1, b 1, ");
  EXPECT_EQ(placed("a,b", {}), "a 1, b 1, ");
  EXPECT_EQ(placed("a:2,b,c", of(8)), "a 2, b 3, c 3, ");
  EXPECT_EQ(placed("a,b:2", of(1)), "a 1, ");
  EXPECT_EQ(placed("a,b:2", of(5)), "a 3, b 2, ");
}

TEST(Placement, counts_a_name_for_each_time_that_it_is_there) {
  EXPECT_EQ(placed("a,a,b", {}), "a 2, b 1, ");
  EXPECT_EQ(placed("a,b,a,b", of(4)), "a 2, b 2, ");
  EXPECT_THAT(placed("a,a", of(3)), HasSubstr("slots for 2 of them"));
  EXPECT_EQ(placed("here:2,b,also:3,here", {}), "here! 6, b 1, ") << "one machine by two names";
}

TEST(Placement, by_how_many_are_on_a_node) {
  EXPECT_EQ(placed("a,b:8", {.size = 4, .per_node = 2}), "a 2, b 2, ");
  EXPECT_EQ(placed("a,b", {.size = 3, .per_node = 2}), "a 2, b 1, ");
  EXPECT_EQ(placed("a,b", {.size = {}, .per_node = 3}), "a 3, b 3, ");
  EXPECT_THAT(placed("a,b", {.size = 5, .per_node = 2}), HasSubstr("slots for 4 of them"));
}

TEST(Placement, goes_beyond_slots_where_it_may) {
  EXPECT_EQ(placed("a:2,b:1", {.size = 7, .oversubscribe = true}), "a 5, b 2, ");
  EXPECT_EQ(placed("a,b", {.size = 5, .per_node = 1, .oversubscribe = true}), "a 3, b 2, ");
  EXPECT_EQ(placed("a:65536", {.size = 65536}), "a 65536, ");
  EXPECT_THAT(placed("a:65536,b:65536", {}), HasSubstr("1 to 65536 ranks"));
  EXPECT_THAT(placed("a", of(0)), HasSubstr("1 to 65536 ranks"));
}

TEST(Hosts, of_this_machine) {
  std::string own(256, 0);
  ASSERT_EQ(::gethostname(own.data(), own.size()), 0);
  own = own.c_str();
  for (const std::string& name :
       {own, std::string("localhost"), std::string("LocalHost"), std::string("127.0.0.1"),
        std::string("127.1.2.3"), std::string("::1")}) {
    EXPECT_TRUE(is_this_machine(name)) << name;
  }
  for (const std::string& name : {own + "x", std::string("me@localhost"), std::string("192.0.2.1"),
                                  std::string("2001:db8::1"), std::string("")}) {
    EXPECT_FALSE(is_this_machine(name)) << name;
  }
}

TEST(Interfaces, are_chosen_by_how_their_names_begin) {
  EXPECT_TRUE(is_interface_of("", "eth0"));
  EXPECT_TRUE(is_interface_of("eth", "eth0"));
  EXPECT_FALSE(is_interface_of("eth", "ib0"));
  EXPECT_TRUE(is_interface_of("ib,eth", "eth0"));
  EXPECT_TRUE(is_interface_of("ib,,eth,", "eth0"));
  EXPECT_FALSE(is_interface_of("ib,eth", "lo"));
}

TEST(Interfaces, are_chosen_by_whole_names_and_by_those_that_are_not_meant) {
  EXPECT_TRUE(is_interface_of("=eth1,eth0", "eth0"));
  EXPECT_FALSE(is_interface_of("=eth", "eth0"));
  EXPECT_FALSE(is_interface_of("^docker,lo", "docker0"));
  EXPECT_FALSE(is_interface_of("^docker,lo", "lo"));
  EXPECT_TRUE(is_interface_of("^docker,lo", "eth0"));
  EXPECT_TRUE(is_interface_of("^=eth", "eth0"));
  EXPECT_FALSE(is_interface_of("^=eth0", "eth0"));
  EXPECT_TRUE(is_interface_of("^", "eth0"));
}

}  // namespace
}  // namespace penstock::job::test
