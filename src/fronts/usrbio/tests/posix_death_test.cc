// The end of an agent, with operations in flight. They read files that nobody has read before: what
// is in the node cache is read without the agent.
#include "tests/node_fixture.h"

namespace penstock::usrbio {
namespace {

class AgentDeath : public Usrbio {};

TEST_F(AgentDeath, operations_go_on_when_the_agent_comes_back) {
  const std::string bytes = random_bytes(64 * kKiB, 16);
  const int before = make_file("before", bytes);
  const int fd = make_file("back", bytes);
  make_iov();
  make_ring(true, 16);
  ASSERT_EQ(transfer(true, 0, before, 0, 4096), 4096);
  node_->suspend();
  for (size_t i = 0; i < 16; ++i) {
    ASSERT_GE(prepare(true, i * 4096, fd, i * 4096, 4096), 0);
  }
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  EXPECT_EQ(wait(1, 50ms), 0);
  node_->kill();
  ASSERT_TRUE(node_->start()) << node_->ending();
  ASSERT_EQ(wait(16), 16);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(cqes_[i].result, 4096);
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), bytes.size()), 0);
}

// Each link that is made or removed would else cost several questions about the way to it.
TEST_F(AgentDeath, way_to_links_is_known_without_asking_the_agent) {
  make_iov();
  node_->suspend();
  const std::string directory = mount_ + "/3fs-virt/iovs";
  EXPECT_EQ(in_child([&] {
              ::alarm(30);
              struct statx facts {};
              constexpr int kFlags = AT_STATX_DONT_SYNC;
              return ::statx(AT_FDCWD, directory.c_str(), kFlags, STATX_TYPE, &facts);
            }),
            0);
  node_->kill();
  ASSERT_TRUE(node_->start()) << node_->ending();
}

TEST_F(AgentDeath, death_of_the_agent_ends_every_wait) {
  const int before = make_file("before", random_bytes(8192, 14));
  const int fd = make_file("death", random_bytes(8192, 15));
  make_iov();
  make_ring(true, 16);
  ASSERT_EQ(transfer(true, 0, before, 0, 8192), 8192);
  node_->suspend();  // so that the operations are in flight for certain
  for (int i = 0; i < 10; ++i) ASSERT_GE(prepare(true, 0, fd, 0, 4096), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  EXPECT_EQ(wait(1, 50ms), 0);
  std::atomic<bool> returned{false};
  int got = 0;
  std::thread waiter([&] {
    got = hf3fs_wait_for_ios(&ior_, cqes_.data(), 16, 16, nullptr);
    returned = true;
  });
  node_->kill();
  waiter.join();  // a successor is waited for before the operations are given up
  EXPECT_EQ(got, 10);
  for (int i = 0; i < got; ++i) EXPECT_EQ(cqes_[static_cast<size_t>(i)].result, -ECONNRESET);
  EXPECT_EQ(wait(1), -ECONNRESET);
  EXPECT_LT(prepare(true, 0, fd, 0, 1), 0);

  // It comes back much later: the ring, its memory and its files are of use again.
  ASSERT_TRUE(node_->start()) << node_->ending();
  int64_t result = -ECONNRESET;
  (void)test::eventually([&] {
    result = transfer(true, 0, fd, 0, 8192);
    return result != -ECONNRESET;
  });
  EXPECT_EQ(result, 8192);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(iov_.base), 8192), random_bytes(8192, 15));
  const int later = make_file("later", "beside the old ones");
  EXPECT_EQ(transfer(true, 0, later, 0, 6), 6);
  EXPECT_EQ(std::memcmp(iov_.base, "beside", 6), 0);
  hf3fs_dereg_fd(later);
  node_->kill();
  hf3fs_dereg_fd(fd);
  hf3fs_dereg_fd(before);
  hf3fs_iordestroy(&ior_);
  hf3fs_iovdestroy(&iov_);
  node_->stop();
  files_.clear();

  ASSERT_TRUE(node_->start()) << node_->ending();
  const int again = make_file("after-death", "alive");
  make_iov();
  make_ring(true);
  EXPECT_EQ(transfer(true, 0, again, 0, 100), 5);
  EXPECT_EQ(std::memcmp(iov_.base, "alive", 5), 0);
}

}  // namespace
}  // namespace penstock::usrbio
