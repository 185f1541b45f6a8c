// Applications with sessions and rings on nodes whose files lie on one another, through loss, cut
// links and deaths: from the ring's entry to the other node's disk and back, and from the nodes'
// caches.
#include "simulated.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "penstock/arena.h"
#include "penstock/testing_cluster.h"

namespace penstock::sessions {
namespace {

using test::FaultyPair;
using test::RegisterFile;

// What the caches of all stories did, so that a story in which they do nothing is found.
struct CacheTotals {
  uint64_t hits = 0;
  uint64_t fills = 0;
  uint64_t evictions = 0;
  uint64_t dropped = 0;
};

// Two applications a node, which share its file: each writes half of the blocks and reads all, from
// the node cache where that has them. Behind the blocks the file is empty, and longer than the
// cache: what is filled from there takes the place of the blocks. Now and then the file's owner
// takes the applications' right to read it away for a moment: then the cache has nothing of it.
class SessionStory {
 public:
  explicit SessionStory(uint64_t seed) : pair_(seed) { pair_.world().stall_permille = 20; }

  const CacheTotals& totals() const { return totals_; }

  uint64_t run() {
    FaultyPair::Hooks hooks;
    hooks.step = [this](size_t node, size_t program, engine::Random& random) {
      return step(node, program, random);
    };
    hooks.started = [this](size_t node) { begin_life(node); };
    hooks.dying = [this](size_t node) { end_life(node); };
    pair_.run(applications_.size(), hooks);
    for (size_t node = 0; node < lives_.size(); ++node) {
      check_all(node);
      end_life(node);
    }
    pair_.stop();
    return pair_.world().trace_hash();
  }

 private:
  // The sessions of one life of a node. Applications that are in a call hold it as it is.
  struct Life {
    void begin(test::SimNode& node) {
      files = node.files();
      if (files == nullptr) return;
      sessions = std::make_unique<SimSessions>(node.loop(), *files, kCacheBytes);
      alive = true;
    }
    // No new call, and every session ends; then what they stood on.
    void end(const std::vector<std::unique_ptr<SimApplication>*>& applications) {
      std::unique_lock lock(mutex);
      alive = false;
      idle.wait(lock, [this] { return calls == 0; });
      lock.unlock();
      for (std::unique_ptr<SimApplication>* const application : applications) application->reset();
      sessions = nullptr;
      files = nullptr;
    }
    bool enter() {
      const std::lock_guard lock(mutex);
      if (!alive) return false;
      ++calls;
      return true;
    }
    void leave() {
      const std::lock_guard lock(mutex);
      if (--calls == 0) idle.notify_all();
    }

    engine::Mutex mutex;
    engine::Condition idle;
    bool alive = false;
    int calls = 0;
    std::shared_ptr<client::FileSystem> files;
    std::unique_ptr<SimSessions> sessions;
  };

  // The file of a node, and whether its applications may read it.
  struct Shared {
    InodeId inode;
    bool is_long = false;
    engine::Mutex changing{engine::Held::across_calls};
    bool hidden = false;  // for certain
    uint64_t shown = 0;   // how often it was, or perhaps was
  };

  void begin_life(size_t node) {
    lives_[node].begin(pair_.node(node));
    const std::shared_ptr<client::FileSystem> files = lives_[node].files;
    if (files == nullptr || shared_[node].inode != InodeId{}) return;
    client::OpenFlags flags;
    flags.write = flags.create = true;
    Result<client::FileRef> made =
        files->open_path(pair_.node(node).root, "/shared", flags, kShown, std::nullopt, nullptr);
    ASSERT_TRUE(made) << pair_.where();
    shared_[node].inode = client::inode_of(**made);
    EXPECT_TRUE(files->close_file(std::move(*made)).ok()) << pair_.where();
  }

  void end_life(size_t node) {
    if (lives_[node].sessions != nullptr) {
      for (const node_cache::CacheStatus& one : lives_[node].sessions->node.cache->status()) {
        totals_.fills += one.fills;
        totals_.evictions += one.evictions;
        totals_.dropped += one.dropped;
      }
    }
    lives_[node].end({&applications_[node], &applications_[node + 2]});
  }

  bool step(size_t node, size_t program, engine::Random& random) {
    Life& life = lives_[node];
    if (!life.enter()) return false;
    const bool well = act(node, program, random);
    // An application may go at any time, also with an operation under way, and come again.
    if (random.chance(1, 10)) {
      const uint32_t block = own_block(program, random);
      if (SimApplication* const leaving = applications_[program].get()) {
        random.chance(1, 2) ? begin_write(node, *leaving, block)
                            : leaving->submit(fill_of(0, kBlocksBytes));
        if (random.chance(1, 2)) {
          pair_.world().run_for(std::chrono::microseconds(random.below(500)));
        }
      }
      applications_[program].reset();
      if (random.chance(1, 2)) {
        (void)fill(node, program, fill_of(RegisterFile::offset(block), RegisterFile::kBlock));
        (void)read(node, program, block);
        (void)look(node, program, block);
      }
    }
    life.leave();
    return well;
  }

  bool act(size_t node, size_t program, engine::Random& random) {
    const uint64_t kind = random.below(100);
    const auto any = static_cast<uint32_t>(random.below(kBlocks));
    if (kind < 30) return write(node, program, own_block(program, random));
    if (kind < 40) return write_beside_fill(node, program, own_block(program, random));
    if (kind < 60) return read(node, program, any);
    if (kind < 85) return read_cached(node, program, any);
    if (kind < 90) return fill(node, program, fill_of(0, kBlocksBytes));
    if (kind < 96) {
      const uint64_t extent = 2 + random.below(kExtents - 10);
      return fill(node, program, fill_of(extent * arena::kExtentBytes, 8 * arena::kExtentBytes));
    }
    if (!shared_[node].is_long) return lengthen(node, program);
    return hide_beside_fill(node, program, any, random) && show(node);
  }

  static uint32_t own_block(size_t program, engine::Random& random) {
    return static_cast<uint32_t>(program / 2 + 2 * random.below(kBlocks / 2));
  }

  // At the end all blocks can be read, and are found in the cache when they have been filled.
  void check_all(size_t node) {
    EXPECT_TRUE(show(node)) << pair_.where();
    for (uint32_t block = 0; block < kBlocks; ++block) {
      EXPECT_TRUE(read(node, node, block)) << pair_.where();
    }
    EXPECT_TRUE(fill(node, node, fill_of(0, kBlocksBytes))) << pair_.where();
    for (uint32_t block = 0; block < kBlocks; ++block) {
      EXPECT_TRUE(look(node, node, block)) << pair_.where();
    }
  }

  // The application, with its session and its file; null when the node cannot be asked.
  SimApplication* ready(size_t node, size_t program) {
    std::unique_ptr<SimApplication>& application = applications_[program];
    if (application == nullptr) {
      auto made =
          std::make_unique<SimApplication>(pair_.world(), *lives_[node].sessions, kReaderUid);
      if (!made->introduce().ok()) return nullptr;
      Status opened = made->open("/shared");
      if (opened == Code::access_denied && show(node)) opened = made->open("/shared");
      if (!opened.ok()) return nullptr;
      application = std::move(made);
    }
    return application.get();
  }

  bool set_mode(size_t node, uint32_t mode) {
    meta::SetAttributes change;
    change.mode = mode;
    const client::Credentials& owner = pair_.node(node).root;
    return lives_[node]
        .files->set_attributes(owner, shared_[node].inode, change, nullptr)
        .has_value();
  }

  bool show(size_t node) {
    Shared& shared = shared_[node];
    const std::lock_guard lock(shared.changing);
    shared.hidden = false;
    ++shared.shown;
    return set_mode(node, kShown);
  }

  bool hide(size_t node) {
    Shared& shared = shared_[node];
    const std::lock_guard lock(shared.changing);
    if (!set_mode(node, kHidden)) return false;
    shared.hidden = true;
    return true;
  }

  // The right to read goes while the extent of the block is on its way into the cache.
  bool hide_beside_fill(size_t node, size_t program, uint32_t block, engine::Random& random) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    application->submit(fill_of(RegisterFile::offset(block), RegisterFile::kBlock));
    pair_.world().run_for(std::chrono::microseconds(random.below(1000)));
    const bool hidden = hide(node);
    for (int i = 0; i < 3; ++i) {
      pair_.world().run_for(std::chrono::milliseconds(1));
      (void)look(node, program, block);
    }
    const int64_t result = application->wait();
    EXPECT_TRUE(result >= 0 || result == -EACCES || may_fail_so(result))
        << result << " " << pair_.where();
    return hidden;
  }

  void begin_write(size_t node, SimApplication& application, uint32_t block) {
    const std::string bytes = models_[node].begin_write(block);
    std::memcpy(application.region().data(), bytes.data(), bytes.size());
    application.submit(entry(ring::kOperationWrite, RegisterFile::offset(block)));
  }

  // A block of zeros far behind the others.
  bool lengthen(size_t node, size_t program) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    std::memset(application->region().data(), 0, RegisterFile::kBlock);
    const uint64_t last = kExtents * uint64_t{arena::kExtentBytes} - RegisterFile::kBlock;
    const int64_t result = application->run(entry(ring::kOperationWrite, last));
    if (result != static_cast<int64_t>(RegisterFile::kBlock)) return false;
    shared_[node].is_long = true;
    return true;
  }

  bool fill(size_t node, size_t program, const ring::Submission& range) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    const int64_t result = application->run(range);
    // Another program has hidden it, and shows it soon; or its node died before that.
    if (result == -EACCES) return show(node);
    EXPECT_TRUE(result >= 0 || may_fail_so(result)) << result << " " << pair_.where();
    EXPECT_LE(result, static_cast<int64_t>(range.length)) << pair_.where();
    return result >= 0;
  }

  bool read_cached(size_t node, size_t program, uint32_t block) {
    return look(node, program, block) || read(node, program, block);
  }

  // Whether the cache has it: then it is as good as a read by the ring.
  bool look(size_t node, size_t program, uint32_t block) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr || !application->map_cache().ok()) return false;
    const Shared& shared = shared_[node];
    const bool hidden = shared.hidden;
    const uint64_t shown = shared.shown;
    const uint64_t known = models_[node].begin_read(block);
    std::optional<std::string> bytes =
        application->look(RegisterFile::offset(block), RegisterFile::kBlock);
    if (!bytes) return false;
    ++totals_.hits;
    EXPECT_FALSE(hidden && shown == shared.shown)
        << "the cache has what may not be read " << pair_.where();
    bytes->resize(RegisterFile::kBlock);
    EXPECT_EQ(models_[node].check(block, known, *bytes), "") << "from the cache " << pair_.where();
    return true;
  }

  bool write(size_t node, size_t program, uint32_t block) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    begin_write(node, *application, block);
    const bool well = application->wait() == static_cast<int64_t>(RegisterFile::kBlock);
    models_[node].end_write(block, well);
    return well;
  }

  // The block changes while its extent is on its way into the cache.
  bool write_beside_fill(size_t node, size_t program, uint32_t block) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    ring::Submission fill = fill_of(RegisterFile::offset(block), RegisterFile::kBlock);
    fill.user_data = 1;
    application->submit(fill);
    pair_.world().run_for(std::chrono::microseconds(pair_.world().random().below(1000)));
    begin_write(node, *application, block);
    bool well = false;
    for (int i = 0; i < 2; ++i) {
      const ring::Completion ended = application->next();
      if (ended.user_data == fill.user_data) continue;
      well = ended.result == static_cast<int64_t>(RegisterFile::kBlock);
      models_[node].end_write(block, well);
    }
    (void)look(node, program, block);
    return well;
  }

  bool read(size_t node, size_t program, uint32_t block) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    const uint64_t known = models_[node].begin_read(block);
    std::memset(application->region().data(), 0, RegisterFile::kBlock);
    const int64_t result =
        application->run(entry(ring::kOperationRead, RegisterFile::offset(block)));
    if (result < 0) {
      EXPECT_TRUE(may_fail_so(result)) << result << " " << pair_.where();
      return false;
    }
    const std::string bytes(reinterpret_cast<const char*>(application->region().data()),
                            RegisterFile::kBlock);
    EXPECT_EQ(models_[node].check(block, known, bytes), "") << pair_.where();
    return true;
  }

  // How an operation may end while there are faults: damage and mistakes are not among them.
  static bool may_fail_so(int64_t result) {
    const std::array<int64_t, 5> reasons{-ECONNRESET, -ETIMEDOUT, -ESHUTDOWN, -EBUSY, -ECANCELED};
    return std::find(reasons.begin(), reasons.end(), result) != reasons.end();
  }

  static ring::Submission entry(uint8_t operation, uint64_t offset) {
    ring::Submission entry{};
    entry.operation = operation;
    if (operation == ring::kOperationWrite) entry.flags = ring::kFlagDurable;
    entry.offset = offset;
    entry.length = RegisterFile::kBlock;
    return entry;
  }

  static ring::Submission fill_of(uint64_t offset, uint64_t length) {
    ring::Submission fill = entry(ring::kOperationFill, offset);
    fill.length = length;
    return fill;
  }

  static constexpr uint32_t kBlocks = 24;  // in two chunks
  static constexpr uint64_t kBlocksBytes = kBlocks * RegisterFile::kBlock;
  static constexpr uint64_t kCacheBytes = node_cache::limits::kSlabBytesMin;
  static constexpr uint64_t kExtents = 40;  // of the file
  static_assert(kExtents > 2 * kCacheBytes / arena::kExtentBytes, "the cache has to evict");
  static constexpr uint32_t kReaderUid = 1000;
  static constexpr uint32_t kShown = 0666;
  static constexpr uint32_t kHidden = 0600;

  FaultyPair pair_;
  std::array<Life, 2> lives_;
  std::array<std::unique_ptr<SimApplication>, 4> applications_;
  std::array<RegisterFile, 2> models_{RegisterFile(kBlocks), RegisterFile(kBlocks)};
  std::array<Shared, 2> shared_;
  CacheTotals totals_;
};

TEST(SessionSimTest, files_of_rings_are_linearisable_through_loss_cuts_and_deaths) {
  const sim::SeedRange seeds = sim::seed_range(1000);
  CacheTotals totals;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    SessionStory story(seed);
    story.run();
    if (HasFailure()) return;
    totals.hits += story.totals().hits;
    totals.fills += story.totals().fills;
    totals.evictions += story.totals().evictions;
    totals.dropped += story.totals().dropped;
  }
  // On average of a story more than one of each.
  EXPECT_GT(totals.hits, seeds.count);
  EXPECT_GT(totals.fills, seeds.count);
  EXPECT_GT(totals.evictions, seeds.count);
  EXPECT_GT(totals.dropped, seeds.count);
}

TEST(SessionSimTest, runs_the_same_way_again_when_the_seed_is_the_same) {
  const sim::SeedRange seeds = sim::seed_range(3);
  for (uint64_t seed = seeds.first; seed < seeds.first + std::min<uint64_t>(seeds.count, 3);
       ++seed) {
    EXPECT_EQ(SessionStory(seed).run(), SessionStory(seed).run());
  }
}

}  // namespace
}  // namespace penstock::sessions
