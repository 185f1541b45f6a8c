#include "iovs.h"
#include "shared_memory.h"
#include "tests/fake_penstock.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/testing.h"

namespace penstock::usrbio {
namespace {

std::string unique_name() {
  return "penstock-test-" + hyphenated(random_uuid());
}

TEST(SharedMemory, new_memory_is_zeroed_private_and_whole_pages) {
  const std::string name = unique_name();
  auto memory = create_shared_memory(name, 5000, -1);
  ASSERT_TRUE(memory);
  struct stat status {};
  ASSERT_EQ(::stat(("/dev/shm/" + name).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(status.st_size % 4096, 0);
  EXPECT_GE(status.st_size, 5000);
  EXPECT_EQ(status.st_blocks, 0) << "pages are made when they are used";
  for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(memory->mapping.base()[i], 0);
  auto again = create_shared_memory(name, 5000, -1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error(), EEXIST);
  unlink_shared_memory(name);
  unlink_shared_memory(name);
  EXPECT_NE(::stat(("/dev/shm/" + name).c_str(), &status), 0);
}

TEST(SharedMemory, impossible_sizes_leave_nothing_behind) {
  const std::string name = unique_name();
  for (const size_t size : {size_t{0}, SIZE_MAX, SIZE_MAX / 2, size_t{1} << 60}) {
    auto memory = create_shared_memory(name, size, -1);
    EXPECT_FALSE(memory) << size;
    EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + name)) << size;
  }
}

TEST(SharedMemory, numa_node_is_a_hint) {
  for (const int numa : {0, 63, 1023, 1024, 1 << 30, -7}) {
    const std::string name = unique_name();
    EXPECT_TRUE(create_shared_memory(name, 4096, numa)) << numa;
    unlink_shared_memory(name);
  }
}

TEST(SharedMemory, open_checks_what_it_finds) {
  const std::string name = unique_name();
  auto memory = create_shared_memory(name, 8192, -1);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(open_shared_memory(name, 8192));
  EXPECT_EQ(open_shared_memory(name, 8193).error(), EINVAL);
  EXPECT_EQ(open_shared_memory(name, 0).error(), EINVAL);
  EXPECT_EQ(open_shared_memory(name + "x", 1).error(), ENOENT);
  const std::string link = unique_name();
  ASSERT_EQ(::symlink(("/dev/shm/" + name).c_str(), ("/dev/shm/" + link).c_str()), 0);
  EXPECT_EQ(open_shared_memory(link, 1).error(), EINVAL);
  unlink_shared_memory(link);
  const std::string fifo = unique_name();
  ASSERT_EQ(::mkfifo(("/dev/shm/" + fifo).c_str(), 0600), 0);
  EXPECT_EQ(open_shared_memory(fifo, 1).error(), EINVAL);
  unlink_shared_memory(fifo);
  unlink_shared_memory(name);
}

TEST(SharedMemory, memory_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const std::string name = unique_name();
  auto memory = create_shared_memory(name, 4096, -1);
  ASSERT_TRUE(memory);
  // Open to everybody, as some callers make it: still not the other user's.
  ASSERT_EQ(::fchmod(memory->fd.get(), 0666), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    auto opened = open_shared_memory(name, 4096);
    ::_exit(!opened && opened.error() == EACCES ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  unlink_shared_memory(name);
}

TEST(SharedMemory, memory_that_nobody_uses_is_removed_with_its_link) {
  const test::ScratchDirectory directory;
  const auto exists = [&](const std::string& name) {
    return std::filesystem::exists("/dev/shm/" + name);
  };
  const auto link = [&](const std::string& name) { return directory / name; };
  const auto make = [&] { return std::string(kMemoryPrefix) + hyphenated(random_uuid()); };
  const std::string used = make();
  const std::string opened = make();
  const std::string abandoned = make();
  const std::string foreign = unique_name();
  auto memory = create_shared_memory(used, 4096, -1);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(create_shared_memory(opened, 4096, -1));
  ASSERT_TRUE(create_shared_memory(abandoned, 4096, -1));
  ASSERT_TRUE(create_shared_memory(foreign, 4096, -1));
  auto opener = open_shared_memory(opened, 4096);
  ASSERT_TRUE(opener);
  const std::string elsewhere = make();  // in another container's /dev/shm
  for (const std::string& name : {used, opened, abandoned, foreign, elsewhere}) {
    ASSERT_EQ(::symlink(("/dev/shm/" + name).c_str(), link(name).c_str()), 0);
  }
  EXPECT_GE(remove_abandoned_memory(directory.path()), 1U);
  EXPECT_TRUE(exists(used));
  EXPECT_TRUE(exists(opened));
  EXPECT_FALSE(exists(abandoned));
  EXPECT_TRUE(exists(foreign)) << "not ours to judge";
  EXPECT_TRUE(std::filesystem::is_symlink(link(used)));
  EXPECT_TRUE(std::filesystem::is_symlink(link(opened)));
  EXPECT_FALSE(std::filesystem::is_symlink(link(abandoned)));
  EXPECT_TRUE(std::filesystem::is_symlink(link(foreign)));
  EXPECT_TRUE(std::filesystem::is_symlink(link(elsewhere)));
  for (const std::string& name : {used, opened, foreign}) unlink_shared_memory(name);
}

// A directory that looks like a mount's, with links that we make ourselves.
class IovsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(mount_ + "/3fs-virt/iovs");
    session_.handle = &native_;
    auto memory = create_shared_memory(name_, 8192, -1);
    ASSERT_TRUE(memory);
    memory_ = std::move(*memory);
  }
  void TearDown() override { unlink_shared_memory(name_); }

  std::string link(const std::string& suffix) { return mount_ + "/3fs-virt/iovs/" + suffix; }
  hf3fs_iov wrap(size_t size, size_t block_size) {
    hf3fs_iov iov{};
    iovs_.wrap(iov, memory_.mapping.base(), id_, mount_, size, block_size, -1);
    return iov;
  }
  int resolve(const hf3fs_iov& iov, size_t offset, uint64_t length) {
    return iovs_.resolve(iov, session_, iov.base + offset, length, location_);
  }

  const std::string name_ = unique_name();
  const std::string target_ = "/dev/shm/" + name_;
  const test::ScratchDirectory scratch_;
  const std::string mount_ = scratch_.path();
  SharedMemory memory_;
  const Uuid id_ = random_uuid();
  penstock_session native_;
  front::Session session_;
  front::Sessions sessions_{"usrbio"};
  Iovs iovs_{sessions_};
  Iovs::Location location_;
};

TEST_F(IovsTest, wrapped_memory_is_attached_by_its_link_at_first_use) {
  const hf3fs_iov iov = wrap(8192, 0);
  EXPECT_EQ(native_.registered.size(), 0U);
  EXPECT_EQ(resolve(iov, 0, 1), -ENOENT);
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id_)).c_str()), 0);
  EXPECT_EQ(resolve(iov, 4096, 4096), 0);
  ASSERT_EQ(native_.registered.size(), 1U);
  EXPECT_EQ(native_.registered[0]->base, memory_.mapping.base());
  EXPECT_EQ(native_.registered[0]->size, 8192U);
  EXPECT_EQ(location_.region, native_.registered[0]);
  EXPECT_EQ(location_.offset, 4096U);
  EXPECT_EQ(resolve(iov, 0, 1), 0);
  EXPECT_EQ(native_.registered.size(), 1U);
}

TEST_F(IovsTest, wrapped_memory_is_found_under_an_id_without_hyphens) {
  ASSERT_EQ(::symlink(target_.c_str(), link(plain_hex(id_)).c_str()), 0);
  EXPECT_EQ(resolve(wrap(8192, 0), 0, 1), 0);
}

TEST_F(IovsTest, wrapped_memory_is_refused_when_the_link_leads_elsewhere) {
  for (const char* target : {"/etc/passwd", "/dev/shm/../../etc/passwd", "relative"}) {
    ASSERT_EQ(::symlink(target, link(hyphenated(id_)).c_str()), 0);
    EXPECT_EQ(resolve(wrap(8192, 0), 0, 1), -EINVAL) << target;
    ASSERT_EQ(::unlink(link(hyphenated(id_)).c_str()), 0);
  }
  EXPECT_EQ(native_.registered.size(), 0U);
}

TEST_F(IovsTest, wrapped_memory_is_refused_when_it_is_smaller_than_stated) {
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id_)).c_str()), 0);
  EXPECT_EQ(resolve(wrap(8193, 0), 0, 1), -EINVAL);
}

// NIXL states the size of its operations as block size, over links that state none.
TEST_F(IovsTest, block_size_that_counts_is_the_published_one) {
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id_)).c_str()), 0);
  const hf3fs_iov stated = wrap(8192, 4096);
  EXPECT_EQ(stated.block_size, 4096U);
  EXPECT_EQ(resolve(stated, 2048, 4096), 0);

  const Uuid other = random_uuid();
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(other) + ".b4096").c_str()), 0);
  hf3fs_iov published{};
  iovs_.wrap(published, memory_.mapping.base(), other, mount_, 8192, 4096, -1);
  EXPECT_EQ(resolve(published, 2048, 4096), -EINVAL);
  EXPECT_EQ(resolve(published, 0, 4096), 0);
}

TEST_F(IovsTest, the_same_memory_wrapped_again_is_registered_once) {
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id_)).c_str()), 0);
  hf3fs_iov first = wrap(8192, 0);
  hf3fs_iov second = wrap(8192, 0);
  EXPECT_EQ(resolve(first, 0, 1), 0);
  EXPECT_EQ(resolve(second, 0, 1), 0);
  EXPECT_EQ(native_.registered.size(), 1U);
  iovs_.destroy(first);
  EXPECT_EQ(resolve(second, 0, 1), 0);
  const hf3fs_iov copy = second;
  iovs_.destroy(second);
  EXPECT_EQ(native_.released, 1U);
  EXPECT_EQ(resolve(copy, 0, 1), -EINVAL);
  EXPECT_TRUE(std::filesystem::is_symlink(link(hyphenated(id_)))) << "the caller's to remove";
  iovs_.destroy(second);
}

TEST_F(IovsTest, slice_without_a_handle_finds_its_memory) {
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id_)).c_str()), 0);
  hf3fs_iov slice = wrap(8192, 0);
  slice.iovh = nullptr;
  slice.base += 100;
  slice.size = 50;
  EXPECT_EQ(resolve(slice, 0, 50), 0);
  EXPECT_EQ(location_.offset, 100U);
  slice.base += 8192;
  EXPECT_EQ(resolve(slice, 0, 50), -EINVAL);
}

TEST_F(IovsTest, removed_links_end_wrapped_memory_sooner_or_later) {
  std::vector<hf3fs_iov> iovs;
  for (int i = 0; i < 20; ++i) {
    const Uuid id = random_uuid();
    ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id)).c_str()), 0);
    hf3fs_iov iov{};
    iovs_.wrap(iov, memory_.mapping.base(), id, mount_, 8192, 0, -1);
    ASSERT_EQ(resolve(iov, 0, 1), 0);
    ASSERT_EQ(::unlink(link(hyphenated(id)).c_str()), 0);
    iovs.push_back(iov);
  }
  EXPECT_LT(native_.registered.size(), 6U);
  EXPECT_EQ(resolve(iovs.front(), 0, 1), -EINVAL);
}

TEST_F(IovsTest, memory_is_registered_again_when_the_session_is_another) {
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id_)).c_str()), 0);
  hf3fs_iov iov = wrap(8192, 0);
  ASSERT_EQ(resolve(iov, 0, 1), 0);
  // Its name may be gone by then.
  unlink_shared_memory(name_);
  penstock_session native;
  front::Session session;
  session.handle = &native;
  Iovs::Location location;
  EXPECT_EQ(iovs_.resolve(iov, session, iov.base, 1, location), 0);
  ASSERT_EQ(native.registered.size(), 1U);
  EXPECT_EQ(location.region, native.registered[0]);
  iovs_.destroy(iov);
  EXPECT_EQ(native.released, 1U);
  EXPECT_EQ(native_.released, 1U);
}

TEST_F(IovsTest, refusal_of_the_agent_is_reported) {
  ASSERT_EQ(::symlink(target_.c_str(), link(hyphenated(id_)).c_str()), 0);
  native_.fail_register = -ENOMEM;
  const hf3fs_iov iov = wrap(8192, 0);
  EXPECT_EQ(resolve(iov, 0, 1), -ENOMEM);
  native_.fail_register = -ECONNRESET;
  EXPECT_EQ(resolve(iov, 0, 1), -ECONNRESET);
  EXPECT_TRUE(session_.dead);
}

TEST_F(IovsTest, failed_creation_leaves_nothing_behind) {
  // A size that no other process's memory has: others make and remove theirs meanwhile.
  constexpr size_t kSize = 10'007 * size_t{4096};
  hf3fs_iov iov{};
  EXPECT_EQ(iovs_.create(iov, mount_, kSize, 0, -1), -ENOENT);  // no mount of ours
  EXPECT_EQ(iov.base, nullptr);
  EXPECT_EQ(iov.iovh, nullptr);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (!entry.path().filename().string().starts_with(kMemoryPrefix)) continue;
    std::error_code is_gone;
    const uintmax_t size = entry.file_size(is_gone);
    EXPECT_TRUE(is_gone || size != kSize) << entry.path();
  }
}

}  // namespace
}  // namespace penstock::usrbio
