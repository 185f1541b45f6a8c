// The process with the names is away for longer than leases last, and nothing else fails: sessions
// of agents go on in its next life, with what programs have written behind.
#include "processes.h"

#include <gtest/gtest.h>

#include "penstock/testing_cluster.h"

namespace penstock::client {
namespace {

using engine::Thread;

engine::MemoryRef memory_in(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

// The node with the names is away for longer than a lease lasts, in the middle of what programs do
// that read, write behind and look up names on two others. Nothing else fails.
std::string outlive(uint64_t seed, Broken broken) {
  broken.targets_apart = true;
  constexpr size_t kFiles = 3;
  constexpr size_t kBlockBytes = 512;
  Processes all(seed, 2, broken);
  all.start();
  engine::SeededRandom random(seed);
  std::string fault;
  const auto expect = [&](bool is_so, const std::string& what) {
    if (!is_so && fault.empty()) fault = what;
  };
  bool is_over = false;
  std::vector<AgentId> before;
  for (size_t i = 0; i < 2; ++i) before.push_back(all.process(i).session());
  // What each has written behind, of its own file and of one in turn.
  struct Writer {
    std::vector<std::string> blocks;
    FileRef file;
    uint64_t failed = 0;
  };
  std::array<Writer, 2> writers;
  const auto open = [&](size_t i, const std::string& path) {
    FileSystem* const files = all.process(i).enter();
    auto file =
        files->open_path(all.root, path, {.write = true, .create = true}, 0644, {}, nullptr);
    all.process(i).leave();
    return file ? *file : nullptr;
  };
  std::vector<Thread> programs;
  for (size_t i = 0; i < 2; ++i) {
    writers[i].file = open(i, "/own" + std::to_string(i));
    expect(writers[i].file != nullptr, "a file is not made");
    programs.emplace_back("writer", [&, i] {
      Writer& self = writers[i];
      while (!is_over && self.file != nullptr) {
        const size_t at = self.blocks.size();
        std::string bytes = test::bytes_of_number(at + 1, kBlockBytes);
        std::string copy = bytes;
        const auto wrote = all.process(i).enter()->write_soon(self.file, at * kBlockBytes,
                                                              memory_in(copy), nullptr, nullptr);
        all.process(i).leave();
        if (wrote && *wrote == bytes.size()) self.blocks.push_back(bytes);
        self.failed += !wrote;
        all.world.run_for(milliseconds(all.world.random().below(200)));
      }
    });
    for (size_t n = 0; n < 2; ++n) {
      programs.emplace_back("others", [&, i, n] {
        engine::SeededRandom dice(seed * 8 + i * 2 + n);
        while (!is_over) {
          const std::string path = "/turn" + std::to_string(dice.below(kFiles));
          const uint64_t what = dice.below(4);
          FileSystem* const files = all.process(i).enter();
          if (what < 3) {
            const auto file = files->open_path(
                all.root, path, {.write = what > 0, .create = what > 0}, 0644, {}, nullptr);
            std::string bytes(kBlockBytes, 'x');
            if (file && what == 0) (void)files->read(*file, 0, memory_in(bytes));
            if (file && what > 0) {
              (void)files->write_soon(*file, 0, memory_in(bytes), nullptr, nullptr);
            }
          } else {
            (void)files->resolve(all.root, path, true);
          }
          all.process(i).leave();
          all.world.run_for(milliseconds(dice.below(30)));
        }
      });
    }
  }
  all.world.run_for(milliseconds(500 + random.below(3000)));
  all.names().kill();
  all.world.run_for(milliseconds(6000 + random.below(24'000)));
  const Status started = all.names().start();
  expect(started.ok(), "the names are not served again");
  all.world.run_for(seconds(5));
  is_over = true;
  for (Thread& program : programs) program.join();
  for (size_t i = 0; i < 2; ++i) {
    expect(all.process(i).session() == before[i], "a session has ended");
    Writer& self = writers[i];
    if (self.file == nullptr) continue;
    expect(all.process(i).enter()->sync_file(self.file).ok(), "what was written behind is lost");
    all.process(i).leave();
    self.file = nullptr;
    // All of it is seen from the other one.
    const FileRef file = open(1 - i, "/own" + std::to_string(i));
    std::string found(self.blocks.size() * kBlockBytes, ' ');
    const auto got = all.process(1 - i).enter()->read(file, 0, memory_in(found));
    all.process(1 - i).leave();
    std::string written;
    for (const std::string& block : self.blocks) written += block;
    expect(got && *got >= written.size() && found == written, "bytes are not there");
  }
  all.stop();
  return fault;
}

TEST(ProcessesLapse, what_was_written_behind_outlives_names_that_are_away_for_longer_than_a_lease) {
  const sim::SeedRange seeds = sim::seed_range(15);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ASSERT_EQ(outlive(seed, {}), "") << "PENSTOCK_SEED=" << seed;
  }
}

// Its length cannot be recorded, and nobody has it open any more when it can.
TEST(ProcessesLapse, a_file_that_was_closed_while_names_were_away_is_whole) {
  for (const bool waits : {false, true}) {
    Processes all(7, 2, {.targets_apart = true});
    all.start();
    const auto open = [&](size_t i) {
      FileSystem* const files = all.process(i).enter();
      FileRef file =
          *files->open_path(all.root, "/file", {.write = true, .create = true}, 0644, {}, nullptr);
      all.process(i).leave();
      return file;
    };
    const AgentId session = all.process(0).session();
    FileRef file = open(0);
    std::string bytes = test::bytes_of_number(1, 3 * 4096);
    std::string copy = bytes;
    ASSERT_TRUE(all.process(0)
                    .enter()
                    ->write(file, 0, memory_in(copy), false, nullptr, nullptr)
                    .has_value());
    all.process(0).leave();
    all.names().kill();
    Thread closer("closer", [&] {
      FileSystem* const files = all.process(0).enter();
      if (waits) {
        EXPECT_FALSE(files->close_file(std::exchange(file, nullptr)).ok());
      } else {
        file = nullptr;  // for the collector's thread
      }
      all.process(0).leave();
    });
    all.world.run_for(seconds(70));
    closer.join();
    ASSERT_TRUE(all.names().start().ok());
    EXPECT_EQ(all.process(0).session(), session);
    file = open(1);
    std::string found(bytes.size() + 1, ' ');
    const auto got = all.process(1).enter()->read(file, 0, memory_in(found));
    all.process(1).leave();
    EXPECT_TRUE(got && *got == bytes.size()) << (got ? *got : 0);
    EXPECT_EQ(found.substr(0, bytes.size()), bytes);
    file = nullptr;
    // It is removed as any other.
    EXPECT_TRUE(all.process(0).enter()->unlink(all.root, meta::kRootInode, "file", nullptr).ok());
    all.process(0).leave();
    EXPECT_TRUE(all.world.run_until([&] { return all.chunk_count() == 0; }, seconds(60)));
    all.stop();
  }
}

TEST(ProcessesLapse, names_that_answer_nothing_before_agents_have_claimed_are_found) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    if (!outlive(seed, {.serves_late = true}).empty()) return;
  }
  FAIL() << "no seed notices";
}

}  // namespace
}  // namespace penstock::client
