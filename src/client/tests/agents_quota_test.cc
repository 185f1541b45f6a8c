// Quotas that bind what several agents write.
#include "agents.h"

namespace penstock::client {
namespace {

constexpr uint64_t kBlock = meta::kQuotaBlockBytes;

class AgentsQuota : public testing::Test {
 protected:
  InodeId directory(const std::string& name) {
    const auto made =
        agents_.files(0).make_directory(agents_.root, meta::kRootInode, name, 0755, nullptr);
    EXPECT_TRUE(made.has_value());
    return made ? made->inode : InodeId();
  }
  void limit(InodeId directory, meta::QuotaLimits limits) {
    const auto subject = meta::QuotaSubject::of_directory(directory);
    ASSERT_TRUE(agents_.files(1).set_quota(subject, limits, "/q").ok());
  }
  meta::Quota quota() {
    const auto all = agents_.files(1).quotas();
    EXPECT_TRUE(all.has_value() && all->size() == 1);
    return (*all)[0];
  }
  // How many bytes could be written, in pieces, until it was refused.
  uint64_t fill(size_t agent, const FileRef& file, uint64_t from, uint64_t most, bool soon) {
    constexpr uint64_t kPiece = 32 * kKiB;
    for (uint64_t at = from; at < from + most; at += kPiece) {
      const std::string bytes(kPiece, 'x');
      const Status status =
          soon ? agents_.write_soon(agent, file, at, bytes) : agents_.write(agent, file, at, bytes);
      if (status == Code::over_quota) return at - from;
      EXPECT_TRUE(status.ok()) << status.name();
      if (!status.ok()) return 0;
    }
    return most;
  }

  Agents agents_{1, 2};
};

TEST_F(AgentsQuota, a_write_ends_where_the_quota_does) {
  limit(directory("q"), {.bytes = 1 * kMiB});
  for (const bool soon : {false, true}) {
    FileRef file = agents_.open(0, "/q/a");
    EXPECT_EQ(fill(0, file, 0, 2 * kMiB, soon), 1 * kMiB) << soon;
    // Bytes that are there may be changed, and the others have to go first.
    EXPECT_TRUE(agents_.write(0, file, 0, "again").ok());
    EXPECT_EQ(agents_.write(0, file, 1 * kMiB, "!"), Code::over_quota);
    meta::SetAttributes cut;
    cut.length = 512 * kKiB;
    EXPECT_TRUE(
        agents_.files(0).set_attributes(agents_.root, inode_of(*file), cut, nullptr).has_value());
    EXPECT_TRUE(agents_.write(0, file, 512 * kKiB, "!").ok());
    EXPECT_TRUE(agents_.files(0).close_file(std::move(file)).ok());
    EXPECT_EQ(quota().used.bytes, 512 * kKiB + kBlock);
    EXPECT_EQ(quota().promised, 0U);
    EXPECT_TRUE(
        agents_.files(1).unlink(agents_.root, InodeId(quota().subject.id), "a", nullptr).ok());
    EXPECT_EQ(quota().used.bytes, 0U);
  }
}

TEST_F(AgentsQuota, two_agents_share_what_there_is) {
  limit(directory("q"), {.bytes = 2 * kMiB});
  FileRef a = agents_.open(0, "/q/a");
  FileRef b = agents_.open(1, "/q/b");
  uint64_t written[2] = {0, 0};
  bool refused[2] = {false, false};
  while (!refused[0] || !refused[1]) {
    for (size_t agent : {size_t{0}, size_t{1}}) {
      if (refused[agent]) continue;
      const Status status =
          agents_.write(agent, agent == 0 ? a : b, written[agent], std::string(64 * kKiB, 'x'));
      refused[agent] = status == Code::over_quota;
      ASSERT_TRUE(refused[agent] || status.ok());
      if (status.ok()) written[agent] += 64 * kKiB;
      ASSERT_LE(written[0] + written[1], 2 * kMiB);
    }
  }
  // What one was promised and has not written may be missing.
  EXPECT_GT(written[0] + written[1], 2 * kMiB - 256 * kKiB);
  EXPECT_TRUE(agents_.files(0).close_file(std::move(a)).ok());
  EXPECT_TRUE(agents_.files(1).close_file(std::move(b)).ok());
  EXPECT_EQ(quota().used.bytes, written[0] + written[1]);
  EXPECT_EQ(quota().promised, 0U);
}

TEST_F(AgentsQuota, one_file_that_both_write_is_promised_once) {
  limit(directory("q"), {.bytes = 1 * kMiB});
  FileRef a = agents_.open(0, "/q/a");
  FileRef b = agents_.open(1, "/q/a");
  EXPECT_EQ(fill(0, a, 0, 512 * kKiB, false), 512 * kKiB);
  EXPECT_EQ(fill(1, b, 512 * kKiB, 2 * kMiB, true), 512 * kKiB);
  EXPECT_EQ(agents_.write(0, a, 1 * kMiB, "!"), Code::over_quota);
  EXPECT_EQ(agents_.stat(0, "/q/a").length, 1 * kMiB);
  EXPECT_TRUE(agents_.files(0).close_file(std::move(a)).ok());
  EXPECT_TRUE(agents_.files(1).close_file(std::move(b)).ok());
  EXPECT_EQ(quota().used.bytes, 1 * kMiB);
}

// Files that were just made may pass it by so much each, and no further.
TEST_F(AgentsQuota, new_files_pass_it_by_no_more_than_is_free) {
  limit(directory("q"), {.bytes = 64 * kKiB});
  std::vector<FileRef> files;
  for (int i = 0; i < 8; ++i) {
    files.push_back(agents_.open(static_cast<size_t>(i % 2), "/q/" + std::to_string(i)));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_LE(fill(i % 2, files[i], 0, 256 * kKiB, false), meta::kFreeGrowthBytes);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_TRUE(agents_.files(i % 2).close_file(std::move(files[i])).ok());
  }
  EXPECT_LE(quota().used.bytes, files.size() * meta::kFreeGrowthBytes);
  // Opened anew they are free no more, and none is made.
  FileRef again = agents_.open(0, "/q/0", {.write = true});
  EXPECT_EQ(agents_.write(0, again, 64 * kKiB, "!"), Code::over_quota);
  const auto made = agents_.files(1).open_path(agents_.root, "/q/new",
                                               {.write = true, .create = true}, 0644, {}, nullptr);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error(), Code::over_quota);
}

TEST_F(AgentsQuota, is_felt_by_files_that_were_open_before) {
  const InodeId q = directory("q");
  FileRef file = agents_.open(0, "/q/a");
  EXPECT_TRUE(agents_.write(0, file, 0, std::string(128 * kKiB, 'x')).ok());
  limit(q, {.bytes = 256 * kKiB});
  EXPECT_TRUE(agents_.files(0).close_file(std::move(file)).ok());
  EXPECT_EQ(quota().used.bytes, 128 * kKiB);
  file = agents_.open(1, "/q/a", {.write = true});
  EXPECT_EQ(fill(1, file, 128 * kKiB, 1 * kMiB, true), 128 * kKiB);
}

}  // namespace
}  // namespace penstock::client
