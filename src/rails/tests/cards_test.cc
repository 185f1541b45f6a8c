// Network cards as a kernel's tree of files shows them.
#include "penstock/rails/cards.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace penstock::rails {
namespace {

namespace fs = std::filesystem;

class Cards : public testing::Test {
 protected:
  Cards() {
    std::string made = (fs::temp_directory_path() / "penstock-cards-XXXXXX").string();
    sys_ = ::mkdtemp(made.data());
    fs::create_directories(sys_ / "class/net");
    fs::create_directories(sys_ / "bus/pci/devices");
  }
  ~Cards() override { fs::remove_all(sys_); }

  static void write(const fs::path& file, const char* text) { std::ofstream(file) << text; }
  // An interface that is a PCI device, or, without an address, none.
  void add(const std::string& name, const std::string& path, const char* numa, const char* speed) {
    fs::create_directories(sys_ / "class/net" / name);
    write(sys_ / "class/net" / name / "speed", speed);
    if (path.empty()) return;
    fs::create_directories(sys_ / path);
    write(sys_ / path / "numa_node", numa);
    fs::create_directory_symlink(sys_ / path, sys_ / "class/net" / name / "device");
    fs::create_directory_symlink(sys_ / path, sys_ / "bus/pci/devices" / fs::path(path).filename());
  }

  fs::path sys_;
};

TEST_F(Cards, are_interfaces_of_devices_with_their_subnets_as_rails) {
  add("lo", "", "", "");
  add("eth1", "devices/pci0000:80/0000:80:01.0/0000:81:00.0", "1\n", "400000\n");
  add("eth0", "devices/pci0000:00/0000:00:01.0/0000:01:00.0", "-1\n", "-1\n");
  add("eth2", "devices/pci0000:00/0000:00:02.0/0000:02:00.0", "0\n", "100000\n");
  const std::vector<CardAddress> addresses = {
      {"eth1", 0x0a010305, 16}, {"lo", 0x7f000001, 8}, {"eth2", 0x0a020305, 24}};
  const auto cards = find_cards(sys_.string(), addresses, {{"eth2", "left"}});
  ASSERT_EQ(cards.size(), 3U);
  EXPECT_EQ(cards[0].name, "eth0");
  EXPECT_EQ(cards[0].rail, "");
  EXPECT_EQ(cards[0].place.numa_node, -1);
  EXPECT_EQ(cards[0].bytes_per_second, 0);
  EXPECT_EQ(cards[1].rail, "10.1.0.0/16");
  EXPECT_EQ(cards[1].place.numa_node, 1);
  EXPECT_DOUBLE_EQ(cards[1].bytes_per_second, 50e9);
  EXPECT_TRUE(cards[1].place.path.ends_with("/pci0000:80/0000:80:01.0/0000:81:00.0"));
  EXPECT_EQ(cards[2].rail, "left");
  EXPECT_EQ(place_of_pci(sys_.string(), "0000:81:00.0").path, cards[1].place.path);
  EXPECT_EQ(place_of_pci(sys_.string(), "0000:99:00.0").path, "");
  EXPECT_EQ(place_of_pci(sys_.string(), "../../devices").path, "");
}

TEST_F(Cards, are_none_where_nothing_is_shown) {
  EXPECT_TRUE(find_cards((sys_ / "nothing").string(), {}, {}).empty());
}

TEST(Rails, are_named_by_interface) {
  const auto rails = parse_rails("eth0=a,eth1=b,,=c,eth2=,eth3");
  EXPECT_EQ(rails.size(), 2U);
  EXPECT_EQ(rails.at("eth0"), "a");
  EXPECT_EQ(rails.at("eth1"), "b");
  EXPECT_TRUE(parse_rails("").empty());
}

}  // namespace
}  // namespace penstock::rails
