// Shared memory, its names and other processes, against a real agent.
#include "tests/node_fixture.h"

#include <fstream>
#include <sched.h>
#include <sys/mount.h>

namespace penstock::usrbio {
namespace {

TEST_F(Usrbio, operation_must_not_cross_a_block) {
  const int fd = make_file("blocks", random_bytes(64 * kKiB, 7));
  make_iov(64 * kKiB, 16 * kKiB);
  make_ring(true);
  EXPECT_EQ(transfer(true, 16 * kKiB, fd, 0, 16 * kKiB), 16 * 1024);
  EXPECT_EQ(prepare(true, 16 * kKiB - 1, fd, 0, 2), -EINVAL);
  EXPECT_EQ(prepare(true, 0, fd, 0, 16 * kKiB + 1), -EINVAL);
}

TEST_F(Usrbio, memory_goes_with_its_names) {
  make_iov(kMiB, 64 * kKiB);
  Uuid id;
  std::memcpy(id.data(), iov_.id, id.size());
  const std::string link = link_path(mount_, id, 64 * kKiB);
  ASSERT_TRUE(std::filesystem::is_symlink(link));
  const std::string memory = std::filesystem::read_symlink(link);
  struct stat status {};
  ASSERT_EQ(::stat(memory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  hf3fs_iovunlink(&iov_);
  EXPECT_FALSE(std::filesystem::exists(memory));
  iov_.base[0] = 1;  // still there for us
  const int fd = make_file("names", "abc");
  make_ring(true);
  EXPECT_EQ(transfer(true, 0, fd, 0, 3), 3);
  hf3fs_iovdestroy(&iov_);
  EXPECT_FALSE(std::filesystem::is_symlink(link));
  EXPECT_EQ(prepare(true, 0, fd, 0, 1), -EINVAL);
}

// As in a container: the mount is there, and the node has another /dev/shm.
TEST_F(Usrbio, memory_that_the_node_does_not_find_is_refused_with_what_to_do) {
  const std::string said = node_->scratch() + "/said-by-the-client";
  const int status = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/dev/shm", "tmpfs", 0, nullptr) != 0) {
      return 99;
    }
    const UniqueFd words(::open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ::dup2(words.get(), STDERR_FILENO);
    log::set_level(log::Level::warning);
    hf3fs_iov iov{};
    return hf3fs_iovcreate(&iov, mount_.c_str(), kMiB, 0, -1) == -ENOENT ? 0 : 1;
  });
  const std::string words = test::read_file(said);
  if (status == 99) GTEST_SKIP() << "mounts of its own cannot be had here";
  EXPECT_EQ(status, 0);
  EXPECT_NE(words.find("/dev/shm/penstock"), std::string::npos) << words;
  EXPECT_NE(words.find("docker run --ipc=host"), std::string::npos) << words;
}

TEST_F(Usrbio, two_processes_share_memory_by_its_id) {
  const std::string bytes = random_bytes(64 * kKiB, 10);
  make_file("shared", bytes);
  make_iov(kMiB);
  const int status = in_child([&] {
    hf3fs_iov theirs{};
    hf3fs_ior ring{};
    uint8_t id[16];
    std::memcpy(id, iov_.id, sizeof(id));
    if (hf3fs_iovopen(&theirs, id, mount_.c_str(), 2 * kMiB, 0, -1) != -EINVAL) return 1;
    if (hf3fs_iovopen(&theirs, id, mount_.c_str(), kMiB, 4096, -1) != -ENOENT) return 2;
    if (hf3fs_iovopen(&theirs, id, mount_.c_str(), kMiB, 0, -1) != 0) return 3;
    if (theirs.base == iov_.base) return 4;
    const int fd = ::open(node_->path("shared").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || hf3fs_reg_fd(fd, 0) > 0) return 5;
    if (hf3fs_iorcreate(&ring, mount_.c_str(), 8, true, 0, -1) != 0) return 6;
    if (hf3fs_prep_io(&ring, &theirs, true, theirs.base, fd, 0, 64 * kKiB, nullptr) < 0) return 7;
    hf3fs_submit_ios(&ring);
    hf3fs_cqe cqe{};
    const timespec until = realtime_in(60s);
    if (hf3fs_wait_for_ios(&ring, &cqe, 1, 1, &until) != 1 || cqe.result != 64 * 1024) return 8;
    hf3fs_iordestroy(&ring);
    hf3fs_iovdestroy(&theirs);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), bytes.size()), 0);
  Uuid id;
  std::memcpy(id.data(), iov_.id, id.size());
  EXPECT_TRUE(std::filesystem::is_symlink(link_path(mount_, id, 0))) << "its maker's to remove";
}

TEST_F(Usrbio, child_uses_what_it_inherits_but_not_rings) {
  const std::string bytes = random_bytes(8192, 11);
  const int fd = make_file("inherited", bytes);
  make_iov(kMiB);
  make_ring(true);
  ASSERT_EQ(transfer(true, 0, fd, 0, 4096), 4096);
  std::memset(iov_.base, 0, 8192);
  const int status = in_child([&] {
    if (prepare(true, 0, fd, 0, 1) != -EINVAL) return 1;
    if (hf3fs_submit_ios(&ior_) != -EINVAL) return 2;
    if (hf3fs_wait_for_ios(&ior_, cqes_.data(), 1, 1, nullptr) != -EINVAL) return 3;
    hf3fs_iordestroy(&ior_);
    if (hf3fs_iorcreate(&ior_, mount_.c_str(), 8, true, 0, -1) != 0) return 4;
    if (transfer(true, 4096, fd, 4096, 4096) != 4096) return 5;
    hf3fs_dereg_fd(fd);
    hf3fs_iordestroy(&ior_);
    hf3fs_iovdestroy(&iov_);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::memcmp(iov_.base + 4096, bytes.data() + 4096, 4096), 0);
  // The parent's are as they were.
  EXPECT_EQ(transfer(true, 0, fd, 0, 4096), 4096);
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), 4096), 0);
}

// As the Python module does: the name is gone before the first operation.
TEST_F(Usrbio, memory_with_a_link_of_the_callers_own_is_attached) {
  const std::string bytes = random_bytes(kMiB, 12);
  const int fd = make_file("links", bytes);
  make_ring(true);
  for (const bool hyphens : {true, false}) {
    const Uuid id = random_uuid();
    const std::string name = "/psm-" + plain_hex(id);
    const UniqueFd memory(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
    ASSERT_TRUE(memory);
    ASSERT_EQ(::ftruncate(memory.get(), kMiB), 0);
    void* base = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    ASSERT_NE(base, MAP_FAILED);
    const std::string link =
        link_directory(mount_) + "/" + (hyphens ? hyphenated(id) : plain_hex(id));
    ASSERT_EQ(::symlink(("/dev/shm" + name).c_str(), link.c_str()), 0);
    ASSERT_EQ(hf3fs_iovwrap(&iov_, base, id.data(), mount_.c_str(), kMiB, 4096, -1), 0);
    ASSERT_EQ(::shm_unlink(name.c_str()), 0);
    EXPECT_EQ(transfer(true, 1000, fd, 1000, 10'000), 10'000);
    EXPECT_EQ(std::memcmp(iov_.base + 1000, bytes.data() + 1000, 10'000), 0);
    EXPECT_EQ(::unlink(link.c_str()), 0);
    hf3fs_iovdestroy(&iov_);
    ::munmap(base, kMiB);
  }
}

TEST_F(Usrbio, memory_without_a_link_is_refused) {
  const int fd = make_file("links", "abc");
  make_ring(true);
  std::array<uint8_t, 4096> memory{};
  const Uuid id = random_uuid();
  ASSERT_EQ(hf3fs_iovwrap(&iov_, memory.data(), id.data(), mount_.c_str(), 4096, 0, -1), 0);
  EXPECT_EQ(prepare(true, 0, fd, 0, 3), -ENOENT);
}

TEST_F(Usrbio, another_user_cannot_attach_memory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  make_iov(kMiB);
  Uuid id;
  std::memcpy(id.data(), iov_.id, id.size());
  const std::string memory = std::filesystem::read_symlink(link_path(mount_, id, 0));
  const std::string mine = link_directory(mount_) + "/" + hyphenated(random_uuid());
  const int status = in_child([&] {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) return 1;
    hf3fs_iov theirs{};
    if (hf3fs_iovopen(&theirs, id.data(), mount_.c_str(), kMiB, 0, -1) >= 0) return 2;
    // Nor by a link of one's own to it.
    if (::symlink(memory.c_str(), mine.c_str()) == 0) return 3;
    if (::open(memory.c_str(), O_RDWR) >= 0) return 4;
    return 0;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::usrbio
