#include "link_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace penstock::fuse {
namespace {

Status add(LinkTable& table, const client::Credentials& maker, const std::string& name,
           const std::string& target, int memory = -1) {
  const Outcome<void> added = table.add(maker, name, target, memory);
  return added ? Status() : added.error().status;
}

constexpr const char* kUuid = "0123456789abcdef0123456789abcdef";

TEST(LinkName, is_taken_apart) {
  const Result<LinkName> plain = parse_link_name("01234567-89AB-cdef-0123-456789abcdef");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->uuid, kUuid);
  EXPECT_FALSE(plain->is_ring);
  const Result<LinkName> ring = parse_link_name(std::string(kUuid) + ".b4096.r-16.ph.t500.f3");
  ASSERT_TRUE(ring);
  EXPECT_EQ(ring->block_bytes, 4096u);
  EXPECT_TRUE(ring->is_ring);
  EXPECT_TRUE(ring->for_read);
  EXPECT_EQ(ring->depth, -16);
  EXPECT_EQ(ring->priority, 1);
  EXPECT_EQ(ring->timeout_ms, 500u);
  EXPECT_EQ(ring->flags, 3u);
  const Result<LinkName> writes = parse_link_name(std::string(kUuid) + ".w.pl");
  ASSERT_TRUE(writes);
  EXPECT_FALSE(writes->for_read);
  EXPECT_EQ(writes->priority, -1);
  const Result<LinkName> device = parse_link_name(std::string(kUuid) + ".gdr.d3");
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->is_device);
}

TEST(LinkName, is_refused_when_it_is_none) {
  for (const char* suffix :
       {".", ".x1", ".b", ".bx", ".b1x", ".b-1", ".t-1", ".pz", "..b1", ".r1.",
        ".b99999999999999999999999", ".d0", ".d0.gdr", ".gdr.d", ".gdr.dx", ".gdr.d-1", ".gdrx"}) {
    EXPECT_FALSE(parse_link_name(std::string(kUuid) + suffix)) << suffix;
  }
  for (const char* name :
       {"", "0123", "g123456789abcdef0123456789abcdef", "../../etc/passwd",
        "0123456789abcdef-0123456789abcdef", "-123456789abcdef0123456789abcdef"}) {
    EXPECT_FALSE(parse_link_name(name)) << name;
  }
  EXPECT_FALSE(parse_link_name(std::string(kUuid) + std::string(300, 'b')));
}

class Links : public testing::Test {
 protected:
  Links() {
    UniqueFd fd(::open(target.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    EXPECT_TRUE(fd);
    EXPECT_EQ(::ftruncate(fd.get(), 8192), 0);
  }
  ~Links() override { ::unlink(target.c_str()); }
  static client::Credentials user(uint32_t uid) { return {uid, uid, {}, true}; }

  const std::string target = "/dev/shm/penstock-link-test-" + std::to_string(::getpid());
  const client::Credentials me = user(::geteuid());
  static resources::BoundsTable bounds() {
    resources::BoundsTable table;
    table[static_cast<size_t>(resources::Resource::heap_bytes)] = {4000, 2000, 1000, 1000};
    return table;
  }
  std::shared_ptr<resources::Accounts> accounts = resources::Accounts::make(bounds(), ::geteuid());
  LinkTable table{accounts};
};

TEST_F(Links, are_seen_and_used_by_their_owner) {
  EXPECT_EQ(add(table, me, kUuid, target), Code::ok);
  EXPECT_EQ(add(table, me, std::string(kUuid) + ".b4096", target), Code::already_exists);
  ASSERT_EQ(table.list(me).size(), 1u);
  EXPECT_EQ(table.list(me)[0].target, target);
  const auto opened = table.open(me, "01234567-89ab-cdef-0123-456789abcdef");
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->size, 8192u);
  EXPECT_EQ(table.remove(me, kUuid), Code::ok);
  EXPECT_EQ(table.remove(me, kUuid), Code::not_found);
  EXPECT_FALSE(table.open(me, kUuid));
}

TEST_F(Links, are_kept_from_other_users) {
  const client::Credentials other = user(54321);
  EXPECT_EQ(add(table, other, kUuid, target), Code::access_denied);
  ASSERT_EQ(add(table, me, kUuid, target), Code::ok);
  EXPECT_TRUE(table.list(other).empty());
  EXPECT_EQ(table.open(other, kUuid).error(), Code::not_found);
  EXPECT_EQ(table.remove(other, kUuid), Code::not_found);
  // By its mode the memory may be everybody's: then everybody may make a link of their own.
  ASSERT_EQ(::chmod(target.c_str(), 0666), 0);
  EXPECT_EQ(add(table, other, kUuid, target), Code::ok);
  EXPECT_EQ(table.list(user(0)).size(), 2u) << "root sees all";
  ASSERT_EQ(::chmod(target.c_str(), 0600), 0);
  EXPECT_EQ(table.open(other, kUuid).error(), Code::access_denied)
      << "rights are those at the time of use";
}

TEST_F(Links, lead_to_plain_files_in_dev_shm_only) {
  for (const char* bad : {"/etc/passwd", "/dev/shm/", "/dev/shm/../../etc/passwd", "/dev/shm/a/b",
                          "/dev/shm/..", "relative", "", "/dev/shm"}) {
    EXPECT_EQ(add(table, me, kUuid, bad), Code::invalid_argument) << bad;
  }
  EXPECT_EQ(add(table, me, kUuid, "/dev/shm/penstock-there-is-none"), Code::not_found);
  const std::string link = target + "-link";
  ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0);
  EXPECT_FALSE(add(table, me, kUuid, link).ok());
  ::unlink(link.c_str());
}

TEST_F(Links, to_gpu_memory_are_refused_and_do_not_stand_for_others) {
  const std::string device = std::string(kUuid) + ".gdr.d0";
  EXPECT_EQ(add(table, me, device, target), Code::not_supported);
  EXPECT_EQ(add(table, me, device, "gdr://anything"), Code::not_supported);
  ASSERT_EQ(add(table, me, kUuid, target), Code::ok);
  EXPECT_EQ(table.open(me, device).error(), Code::not_found);
  EXPECT_EQ(table.remove(me, device), Code::not_found);
  EXPECT_TRUE(table.open(me, kUuid));
}

TEST_F(Links, are_paid_for_by_their_user) {
  ASSERT_EQ(::chmod(target.c_str(), 0666), 0);
  const client::Credentials other = user(54321);
  const auto held = [&] {
    return accounts->resources()[static_cast<size_t>(resources::Resource::heap_bytes)];
  };
  const std::string uuid(kUuid);
  uint32_t made = 0;
  while (made < 10 && add(table, other, std::to_string(made) + uuid.substr(1), target).ok()) ++made;
  EXPECT_GT(made, 1u);
  EXPECT_LT(made, 10u) << "the user's share";
  EXPECT_GT(held().held, 0u);
  EXPECT_EQ(held().refused, 1u);
  EXPECT_EQ(add(table, me, kUuid, target), Code::ok);
  ASSERT_EQ(table.remove(me, kUuid), Code::ok);
  while (made-- > 0) {
    ASSERT_EQ(table.remove(other, std::to_string(made) + uuid.substr(1)), Code::ok);
  }
  EXPECT_EQ(held().held, 0u);
}

TEST_F(Links, whose_path_leads_to_another_file_are_refused) {
  const UniqueFd same(::open(target.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  EXPECT_EQ(add(table, me, kUuid, target, other.get()), Code::not_found);
  EXPECT_TRUE(table.list(me).empty());
  EXPECT_EQ(add(table, me, kUuid, target, same.get()), Code::ok);
}

TEST_F(Links, of_rings_are_not_regions) {
  ASSERT_EQ(add(table, me, std::string(kUuid) + ".r", target), Code::ok);
  EXPECT_FALSE(table.open(me, kUuid));
}

}  // namespace
}  // namespace penstock::fuse
