// Quotas over whole processes that are killed and cut off while programs on all of them fill a
// directory: in the end what is counted is what there is, and the limit was passed by no more than
// is said.
#include "processes.h"

#include <gtest/gtest.h>

namespace penstock::client {
namespace {

using engine::Thread;

constexpr size_t kWriters = 4;
constexpr uint64_t kLimit = 512 * kKiB;
constexpr uint64_t kInodes = 12;
constexpr uint64_t kPiece = 24 * kKiB;

class QuotaStory {
 public:
  explicit QuotaStory(uint64_t seed, bool faults) : all_(seed, 2, {}), faults_(faults) {}

  void run() {
    all_.start();
    at(names(), [&](FileSystem& files) {
      const auto made = files.make_directory(all_.root, meta::kRootInode, "q", 0777, nullptr);
      ASSERT_TRUE(made.has_value());
      q_ = made->inode;
      const auto subject = meta::QuotaSubject::of_directory(q_);
      ASSERT_TRUE(files.set_quota(subject, {.bytes = kLimit, .inodes = kInodes}, "/q").ok());
    });
    std::vector<Thread> writers;
    for (size_t i = 0; i < kWriters; ++i) {
      writers.emplace_back("writer", [this, i] { write_all(i); });
    }
    if (faults_) inject();
    for (Thread& writer : writers) writer.join();
    all_.network.heal();
    all_.network.faults.drop_permille = 0;
    check();
    all_.stop();
  }

  uint64_t refused = 0;
  uint64_t written = 0;

 private:
  size_t names() const { return all_.count() - 1; }
  sim::SimWorld& world() { return all_.world; }

  bool at(size_t process, const std::function<void(FileSystem&)>& act) {
    FileSystem* const files = all_.process(process).enter();
    if (files == nullptr) return false;
    act(*files);
    all_.process(process).leave();
    return true;
  }

  void inject() {
    engine::Random& random = world().random();
    all_.network.faults.drop_permille = random.chance(1, 2) ? 10 : 0;
    for (int left = 4; left > 0; --left) {
      world().run_for(std::chrono::milliseconds(random.below(4000)));
      const size_t victim = random.below(all_.count());
      Process& process = all_.process(victim);
      if (victim != names() && random.chance(1, 3)) {
        process.stop_for(std::chrono::milliseconds(random.below(12'000)));
        continue;
      }
      if (victim == names()) names_killed_ = true;
      process.kill();
      world().run_for(std::chrono::milliseconds(random.below(1000)));
      ASSERT_TRUE(process.start().ok());
    }
  }

  // Files of one writer are its own, through any process.
  void write_all(size_t writer) {
    engine::SeededRandom random(world().seed() * 16 + writer);
    for (int step = 0; step < 40; ++step) {
      const std::string name = std::to_string(writer) + "." + std::to_string(random.below(6));
      at(random.below(all_.count()), [&](FileSystem& files) { one(files, name, random); });
      world().run_for(std::chrono::milliseconds(random.below(200)));
    }
  }

  void one(FileSystem& files, const std::string& name, engine::Random& random) {
    const uint64_t dice = random.below(10);
    if (dice < 2) {
      note(files.unlink(all_.root, q_, name, nullptr));
    } else if (dice < 3) {
      // Out of it, and what is there back in.
      note(files.rename(all_.root, q_, name, meta::kRootInode, name, {}, nullptr));
    } else if (dice < 4) {
      note(files.rename(all_.root, meta::kRootInode, name, q_, name, {}, nullptr));
    } else {
      fill(files, name, random);
    }
  }

  void fill(FileSystem& files, const std::string& name, engine::Random& random) {
    const OpenFlags flags{.write = true, .create = true, .truncate = random.chance(1, 5)};
    auto file = files.open_name(all_.root, q_, name, flags, 0644, {}, true, nullptr, nullptr);
    if (!file) return note(file.error());
    for (uint64_t left = 1 + random.below(8); left > 0; --left) {
      std::string bytes(kPiece, 'x');
      const engine::MemoryRef memory{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
      const auto done = files.append(*file, memory, random.chance(1, 2), nullptr, nullptr);
      if (!done) {
        note(done.error());
        break;
      }
      written += bytes.size();
    }
    const Status closed = files.close_file(std::move(*file));
    static_cast<void>(closed);
  }

  void note(Status status) {
    if (status == Code::over_quota) ++refused;
    EXPECT_NE(status, Code::corrupt);
  }

  void check() {
    const auto subject = meta::QuotaSubject::of_directory(q_);
    meta::QuotaCheck found;
    // Until what lost processes left is settled, and nothing is open.
    const bool settled = world().run_until(
        [&] {
          bool good = false;
          at(names(), [&](FileSystem& files) {
            const auto check = files.check_quota(subject, false);
            good = check && check->quota.promised == 0;
            if (check) found = *check;
          });
          return good;
        },
        std::chrono::seconds(120));
    EXPECT_TRUE(settled) << found.quota.promised << " promised";
    EXPECT_EQ(found.quota.used, found.found);
    EXPECT_LE(found.found.inodes, kInodes);
    // A new life forgets what its predecessor has promised.
    const uint64_t most =
        kLimit + kWriters * meta::kFreeGrowthBytes + (names_killed_ ? kWriters * kLimit : 0);
    EXPECT_LE(found.found.bytes, most);
  }

  Processes all_;
  const bool faults_;
  InodeId q_;
  bool names_killed_ = false;
};

void run(uint64_t first, uint64_t count, bool faults) {
  uint64_t refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    QuotaStory story(seed, faults);
    story.run();
    refused += story.refused;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refused, count);
}

TEST(ProcessesQuota, hold_for_all_of_them) {
  const sim::SeedRange seeds = sim::seed_range(200);
  run(seeds.first, seeds.count, false);
}

TEST(ProcessesQuota, are_counted_right_whatever_dies) {
  const sim::SeedRange seeds = sim::seed_range(400);
  run(seeds.first, seeds.count, true);
}

}  // namespace
}  // namespace penstock::client
