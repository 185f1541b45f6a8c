// Readers of the node cache beside readers of rings, while a file changes: whoever comes after a
// reader that has found the new bytes finds no old ones.
#include "simulated.h"

#include <cstring>
#include <fmt/format.h>

#include "penstock/testing_cluster.h"

namespace penstock::sessions {
namespace {

constexpr uint32_t kBlock = 4096;

ring::Submission entry(uint8_t operation, uint64_t offset, uint64_t length = kBlock) {
  ring::Submission entry{};
  entry.operation = operation;
  if (operation == ring::kOperationWrite) entry.flags = ring::kFlagDurable;
  entry.offset = offset;
  entry.length = length;
  return entry;
}

// A node that stores for itself, with a cache, and two applications of one user: one changes files,
// the other reads. A new file each time, so that changes meet caches that have never heard of it.
class CacheOrder {
 public:
  explicit CacheOrder(uint64_t seed) : world_(seed), network_(world_) {
    world_.stall_permille = 20;
    EXPECT_TRUE(node_.start_store().ok() && node_.start_mount().ok());
    sessions_ = std::make_unique<SimSessions>(node_.loop(), *node_.files(),
                                              node_cache::limits::kSlabBytesMin);
  }
  ~CacheOrder() {
    sessions_ = nullptr;
    node_.stop();
  }

  // How often a reader found a change that was not over.
  int early() const { return early_; }

  void write_beside_readers() {
    Pair pair = begin();
    fill_region(*pair.maker, 'n');
    pair.maker->submit(entry(ring::kOperationWrite, kBlock));
    find(pair, 'n');
    early_ += pair.maker->is_answered() ? 0 : 1;
    look(pair, 'n');
    pair.reader->run(entry(ring::kOperationFill, 0));
    look(pair, 'n');
    EXPECT_EQ(pair.maker->wait(), kBlock);
    check_end(pair, 'n');
  }

  void cut_beside_readers() {
    Pair pair = begin();
    meta::SetAttributes shorter;
    shorter.length = kBlock;
    change(pair, [&] {
      return node_.files()->set_attributes(node_.root, inode_, shorter, nullptr).has_value();
    });
    check_end(pair, '\0');
  }

  void punch_beside_readers() {
    Pair pair = begin();
    Result<client::FileRef> file =
        node_.files()->open_path(node_.root, path_, {.write = true}, 0, std::nullopt, nullptr);
    ASSERT_TRUE(file.has_value());
    change(pair,
           [&] { return node_.files()->punch(*file, kBlock, kBlock, nullptr, nullptr).ok(); });
    check_end(pair, '\0');
    EXPECT_TRUE(node_.files()->close_file(std::move(*file)).ok());
  }

 private:
  struct Pair {
    std::unique_ptr<SimApplication> maker;
    std::unique_ptr<SimApplication> reader;
  };

  std::unique_ptr<SimApplication> application() {
    auto made = std::make_unique<SimApplication>(world_, *sessions_, 0);
    EXPECT_TRUE(made->introduce().ok() && made->open(path_).ok() && made->map_cache().ok());
    return made;
  }

  // A file of three blocks of 'o', of which the cache has all, a part that is on its way, or
  // nothing.
  Pair begin() {
    path_ = fmt::format("/{}", ++files_);
    Pair pair{application(), application()};
    inode_ = node_.files()->resolve(node_.root, path_, true)->inode;
    fill_region(*pair.maker, 'o');
    // What is durable after it waits for the commit of both, while readers see it.
    ring::Submission before = entry(ring::kOperationWrite, 0, 3 * kBlock);
    before.flags = 0;
    EXPECT_EQ(pair.maker->run(before), 3 * kBlock);
    if (world_.chance(500)) {
      EXPECT_EQ(pair.reader->run(entry(ring::kOperationFill, 0, 3 * kBlock)), 3 * kBlock);
    }
    return pair;
  }

  // A change by a thread, of block 1 to zeros or to nothing, which are the same to `look`.
  void change(Pair& pair, const std::function<bool()>& make) {
    bool over = false;
    engine::Thread maker("maker", [&] {
      EXPECT_TRUE(make());
      over = true;
    });
    find(pair, '\0');
    early_ += over ? 0 : 1;
    look(pair, '\0');
    pair.reader->run(entry(ring::kOperationFill, 0));
    look(pair, '\0');
    maker.join();
  }

  // Fills while block 1 changes, until a reader by the ring finds it changed.
  void find(Pair& pair, char expected) {
    for (uint64_t fills = world_.random().below(4); fills > 0; --fills) {
      world_.run_for(std::chrono::microseconds(world_.random().below(100)));
      pair.reader->run(entry(ring::kOperationFill, 0));
    }
    for (char found = 'o'; found != expected; found = read(*pair.reader)) ASSERT_EQ(found, 'o');
  }

  static void fill_region(SimApplication& application, char with) {
    std::memset(application.region().data(), with, application.region().size());
  }

  // The byte that all of block 1 has; '\0' behind the end of the file.
  static char read(SimApplication& application) {
    fill_region(application, '\0');
    EXPECT_GE(application.run(entry(ring::kOperationRead, kBlock)), 0);
    const auto* const bytes = reinterpret_cast<const char*>(application.region().data());
    EXPECT_TRUE(std::string(bytes, kBlock) == std::string(kBlock, bytes[0])) << "it is torn";
    return bytes[0];
  }

  // Whether the cache has block 1, and then as expected.
  static bool look(Pair& pair, char expected) {
    EXPECT_TRUE(pair.reader->map_cache().ok());
    std::optional<std::string> bytes = pair.reader->look(kBlock, kBlock);
    if (!bytes) return false;
    bytes->resize(kBlock);
    EXPECT_TRUE(*bytes == std::string(kBlock, expected)) << "it begins with " << int{(*bytes)[0]};
    return true;
  }

  // Nothing changes any more: what is filled is there.
  void check_end(Pair& pair, char expected) {
    look(pair, expected);
    EXPECT_GE(pair.reader->run(entry(ring::kOperationFill, 0)), kBlock) << path_;
    EXPECT_TRUE(look(pair, expected)) << path_;
  }

  sim::SimWorld world_;
  sim::SimNetwork network_;
  test::SimNode node_{network_, world_, 1, {{NodeId{1}, 0}}};
  std::unique_ptr<SimSessions> sessions_;
  int files_ = 0;
  int early_ = 0;
  std::string path_;
  InodeId inode_;
};

void for_all_seeds(void (CacheOrder::*story)()) {
  const sim::SeedRange seeds = sim::seed_range(100);
  int early = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    CacheOrder order(seed);
    for (int i = 0; i < 10; ++i) (order.*story)();
    if (testing::Test::HasFailure()) return;
    early += order.early();
  }
  // Else nothing was tested. Not every single seed has one.
  if (seeds.count >= 100) {
    EXPECT_GT(early, 0);
  }
}

TEST(CacheOrderSimTest, nothing_old_is_found_after_a_reader_has_found_what_is_being_written) {
  for_all_seeds(&CacheOrder::write_beside_readers);
}

TEST(CacheOrderSimTest, nothing_old_is_found_after_a_reader_has_found_a_cut) {
  for_all_seeds(&CacheOrder::cut_beside_readers);
}

TEST(CacheOrderSimTest, nothing_old_is_found_after_a_reader_has_found_a_hole) {
  for_all_seeds(&CacheOrder::punch_beside_readers);
}

}  // namespace
}  // namespace penstock::sessions
