// Programs on several nodes that have one file system, in every order: nobody finds what is older
// than what somebody was told.
#include "agents.h"

#include <gtest/gtest.h>

#include "penstock/testing_cluster.h"

namespace penstock::client {
namespace {

using engine::Thread;
using std::chrono::milliseconds;
using test::RegisterFile;

constexpr size_t kAgents = 3;
constexpr size_t kPrograms = 6;
constexpr uint32_t kBlocks = 24;

engine::MemoryRef memory_of(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

struct Mutants {
  bool answers_before_drop = false;
};

class AgentsStory {
 public:
  explicit AgentsStory(uint64_t seed, Mutants mutants = {}) : agents_(seed, kAgents) {
    agents_.world.stall_permille = 20;
    agents_.holds().answers_before_drop = mutants.answers_before_drop;
  }

  void run() {
    std::vector<Thread> programs;
    for (size_t i = 0; i < kPrograms; ++i) {
      programs.emplace_back("program", [this, i] { run_program(i); });
    }
    engine::Random& random = agents_.world.random();
    for (uint64_t left = random.below(3); left > 0; --left) {
      agents_.world.run_for(milliseconds(random.below(300)));
      agents_.holds().lose(random.below(kAgents));
    }
    for (Thread& program : programs) program.join();
    check_log();
    for (size_t agent = 0; agent < kAgents; ++agent) {
      for (uint32_t block = 0; block < kBlocks; ++block) read(agent, block);
    }
    opens_ = {};
  }
  size_t faults() const { return faults_; }

 private:
  FileSystem& files(size_t agent) { return agents_.files(agent); }

  void expect(const std::string& fault) {
    if (fault.empty()) return;
    ++faults_;
    first_fault_ = first_fault_.empty() ? fault : first_fault_;
  }

  void run_program(size_t program) {
    engine::SeededRandom random(agents_.world.seed() * 16 + program);
    const size_t agent = program % kAgents;
    for (int step = 0; step < 40 && faults_ == 0; ++step) {
      const uint64_t dice = random.below(20);
      if (dice < 6) {
        write(program, random);
      } else if (dice < 12) {
        read(agent, static_cast<uint32_t>(random.below(kBlocks)));
      } else if (dice < 15) {
        append(program, random.chance(1, 2));
      } else if (dice < 17) {
        look_at_log(agent);
      } else if (dice < 18) {
        opens_[agent].reset();
      } else if (dice < 19) {
        sync(agent);
      } else {
        private_file(program);
      }
      if (random.chance(1, 3)) agents_.world.run_for(milliseconds(random.below(20)));
    }
  }

  FileRef shared(size_t agent) {
    if (const FileRef file = opens_[agent]) return file;
    const FileRef file = agents_.open(agent, "/shared");
    if (file == nullptr) expect("an open fails");
    // At once: the end of the one before lets other programs run, which look here.
    FileRef(file).swap(opens_[agent]);
    return file;
  }

  void write(size_t program, engine::Random& random) {
    const size_t agent = program % kAgents;
    const auto block =
        static_cast<uint32_t>(program + kPrograms * random.below(kBlocks / kPrograms));
    const FileRef file = shared(agent);
    if (file == nullptr) return;
    std::string bytes = model_.begin_write(block);
    const uint64_t offset = RegisterFile::offset(block);
    const auto done =
        random.chance(1, 2)
            ? files(agent).write_soon(file, offset, memory_of(bytes), nullptr, nullptr)
            : files(agent).write(file, offset, memory_of(bytes), random.chance(1, 3), nullptr,
                                 nullptr);
    model_.end_write(block, done && *done == bytes.size());
    if (!done) expect("a write fails: " + std::string(done.error().name()));
  }

  void read(size_t agent, uint32_t block) {
    const FileRef file = shared(agent);
    if (file == nullptr) return;
    const uint64_t begun = model_.begin_read(block);
    std::string bytes(RegisterFile::kBlock, '\0');
    const auto got = files(agent).read(file, RegisterFile::offset(block), memory_of(bytes));
    if (!got) return expect("a read fails: " + std::string(got.error().name()));
    bytes.resize(*got);
    bytes.resize(RegisterFile::kBlock, '\0');
    expect(model_.check(block, begun, bytes));
  }

  void append(size_t program, bool soon) {
    const size_t agent = program % kAgents;
    const FileRef log = agents_.open(agent, "/log");
    std::string record = "[" + std::to_string(program) + ":" + std::to_string(++records_[program]) +
                         std::string(records_[program] * 37 % 300, '.') + "]";
    const auto done = files(agent).append(log, memory_of(record), soon, nullptr, nullptr);
    if (!done || done->bytes != record.size()) return expect("an append fails");
    log_bytes_ += record.size();
    expect(log_.emplace(done->offset, record).second ? "" : "two records at one place");
    length_told_ = std::max(length_told_, done->offset + record.size());
  }

  void look_at_log(size_t agent) {
    const uint64_t least = length_told_;
    const auto found = files(agent).resolve(agents_.root, "/log", true);
    if (!found) return expect(least == 0 ? "" : "the log is not there");
    if (found->length < least) expect("the log is shorter than it was");
    length_told_ = std::max(length_told_, found->length);
  }

  void sync(size_t agent) {
    const Status synced = files(agent).sync_file(shared(agent), false);
    if (!synced.ok()) expect("a sync fails: " + std::string(synced.name()));
  }

  // Made by one, read and removed by another.
  void private_file(size_t program) {
    const std::string path = "/p" + std::to_string(program) + "." + std::to_string(++made_);
    const size_t maker = program % kAgents;
    const size_t other = (maker + 1) % kAgents;
    {
      const FileRef file = agents_.open(maker, path);
      std::string bytes = path;
      (void)files(maker).write_soon(file, 0, memory_of(bytes), nullptr, nullptr);
      const FileRef again = agents_.open(other, path, OpenFlags{});
      if (again == nullptr || agents_.read(other, again, 0, 100) != path) {
        expect("a new file is not as it was made");
      }
    }
    const Status gone =
        files(other).unlink(agents_.root, meta::kRootInode, path.substr(1), nullptr);
    if (!gone.ok()) expect("a file cannot be removed");
    if (files(maker).resolve(agents_.root, path, true)) expect("a removed file is still there");
  }

  // Each record once, and nothing between them.
  void check_log() {
    uint64_t end = 0;
    for (const auto& [offset, record] : log_) {
      if (offset != end) expect("a gap in the log");
      end = offset + record.size();
    }
    if (end == 0) return;
    std::string bytes = agents_.read(0, agents_.open(0, "/log", OpenFlags{}), 0, end + 10);
    for (const auto& [offset, record] : log_) {
      if (bytes.compare(offset, record.size(), record) != 0) expect("a record is another");
    }
    if (bytes.size() != end) expect("the log has another length");
  }

  Agents agents_;
  RegisterFile model_{kBlocks};
  std::array<FileRef, kAgents> opens_;
  std::array<uint64_t, kPrograms> records_{};
  std::map<uint64_t, std::string> log_;
  uint64_t log_bytes_ = 0;
  uint64_t length_told_ = 0;
  uint64_t made_ = 0;
  size_t faults_ = 0;

 public:
  std::string first_fault_;
};

TEST(AgentsSimTest, nobody_finds_what_is_older_than_what_somebody_was_told) {
  const sim::SeedRange seeds = sim::seed_range(100);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    AgentsStory story(seed);
    story.run();
    EXPECT_EQ(story.first_fault_, "");
    if (HasFailure()) return;
  }
}

TEST(AgentsSimTest, a_recall_that_is_answered_too_early_is_found) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    AgentsStory story(seed, {.answers_before_drop = true});
    story.run();
    if (story.faults() > 0) return;
  }
  FAIL() << "no seed has found it";
}

}  // namespace
}  // namespace penstock::client
