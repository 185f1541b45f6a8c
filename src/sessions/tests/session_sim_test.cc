// Applications with sessions and rings on nodes whose files lie on one another, through loss, cut
// links and deaths: from the ring's entry to the other node's disk and back.
#include "simulated.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "penstock/testing_cluster.h"

namespace penstock::sessions {
namespace {

using test::FaultyPair;
using test::RegisterFile;

// Two applications a node, which share its file: each writes half of the blocks and reads all.
class SessionStory {
 public:
  explicit SessionStory(uint64_t seed) : pair_(seed) {}

  uint64_t run() {
    FaultyPair::Hooks hooks;
    hooks.step = [this](size_t node, size_t program, engine::Random& random) {
      return step(node, program, random);
    };
    hooks.started = [this](size_t node) { lives_[node].begin(pair_.node(node)); };
    hooks.dying = [this](size_t node) { lives_[node].end(applications_of(node)); };
    pair_.run(applications_.size(), hooks);
    for (size_t node = 0; node < lives_.size(); ++node) {
      for (uint32_t block = 0; block < kBlocks; ++block) {
        EXPECT_TRUE(read(node, node, block)) << pair_.where();
      }
      lives_[node].end(applications_of(node));
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
      sessions = std::make_unique<SimSessions>(node.loop(), *files);
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

  std::vector<std::unique_ptr<SimApplication>*> applications_of(size_t node) {
    return {&applications_[node], &applications_[node + 2]};
  }

  bool step(size_t node, size_t program, engine::Random& random) {
    Life& life = lives_[node];
    if (!life.enter()) return false;
    const auto mine = static_cast<uint32_t>(program / 2 + 2 * random.below(kBlocks / 2));
    const bool well = random.chance(1, 2)
                          ? write(node, program, mine)
                          : read(node, program, static_cast<uint32_t>(random.below(kBlocks)));
    // An application may go at any time, also with an operation under way, and come again.
    if (random.chance(1, 10)) {
      if (applications_[program] != nullptr) begin_write(node, *applications_[program], mine);
      applications_[program].reset();
    }
    life.leave();
    return well;
  }

  // The application, with its session and its file; null when the node cannot be asked.
  SimApplication* ready(size_t node, size_t program) {
    std::unique_ptr<SimApplication>& application = applications_[program];
    if (application == nullptr) {
      auto made = std::make_unique<SimApplication>(pair_.world(), *lives_[node].sessions);
      if (!made->introduce().ok() || !made->open("/shared").ok()) return nullptr;
      application = std::move(made);
    }
    return application.get();
  }

  void begin_write(size_t node, SimApplication& application, uint32_t block) {
    const std::string bytes = models_[node].begin_write(block);
    std::memcpy(application.region().data(), bytes.data(), bytes.size());
    application.submit(entry(ring::kOperationWrite, block));
  }

  bool write(size_t node, size_t program, uint32_t block) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    begin_write(node, *application, block);
    const bool well = application->wait() == static_cast<int64_t>(RegisterFile::kBlock);
    models_[node].end_write(block, well);
    return well;
  }

  bool read(size_t node, size_t program, uint32_t block) {
    SimApplication* const application = ready(node, program);
    if (application == nullptr) return false;
    const uint64_t known = models_[node].begin_read(block);
    std::memset(application->region().data(), 0, RegisterFile::kBlock);
    const int64_t result = application->run(entry(ring::kOperationRead, block));
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

  static ring::Submission entry(uint8_t operation, uint32_t block) {
    ring::Submission entry{};
    entry.operation = operation;
    if (operation == ring::kOperationWrite) entry.flags = ring::kFlagDurable;
    entry.offset = RegisterFile::offset(block);
    entry.length = RegisterFile::kBlock;
    return entry;
  }

  static constexpr uint32_t kBlocks = 24;  // in two chunks

  FaultyPair pair_;
  std::array<Life, 2> lives_;
  std::array<std::unique_ptr<SimApplication>, 4> applications_;
  std::array<RegisterFile, 2> models_{RegisterFile(kBlocks), RegisterFile(kBlocks)};
};

TEST(SessionSimTest, files_of_rings_are_linearisable_through_loss_cuts_and_deaths) {
  const sim::SeedRange seeds = sim::seed_range(1000);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    SessionStory(seed).run();
    if (HasFailure()) return;
  }
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
