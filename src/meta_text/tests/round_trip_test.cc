// Random namespaces there and back: what is loaded is what was dumped, also in what it does next.
#include "fixture.h"

#include <functional>
#include <gtest/gtest.h>

#include "penstock/sim.h"
#include "penstock/testing.h"

namespace penstock::meta_text {
namespace {

using meta::FileType;

// Every reading is a microsecond later, the same in each life.
class TickingClock final : public engine::Clock {
 public:
  engine::Time now() const override { return engine::Time(engine::Duration(tick())); }
  engine::WallTime wall() const override { return {tick()}; }

 private:
  int64_t tick() const { return 1'000 * ++ticks_; }
  mutable int64_t ticks_ = 0;
};

// A namespace in which things happen by chance, the same ones from one seed.
class World {
 public:
  World(engine::Kv& kv, uint64_t seed) : random_(seed) {
    auto opened = meta::Meta::open(kv, clock_, {});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    meta_ = std::move(*opened);
    // A dump says what is in the trash, and not for how long.
    if (seed % 2 == 0) (void)meta_->set_trash(meta::kRootInode, 1, "/");
  }

  void live(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

 private:
  // Answers do not matter: what cannot be done leaves things as they are.
  void step() {
    const InodeId directory = any_directory();
    const std::string name = any_name();
    const auto mode = static_cast<uint32_t>(random_.below(010000));
    switch (random_.below(14)) {
      case 0:
      case 1:
        (void)meta_->make_directory(root_, directory, name, mode);
        break;
      case 2:
        (void)meta_->make_symlink(root_, directory, name, "to " + any_name());
        break;
      case 3:
        (void)meta_->make_node(root_, directory, name, FileType::character, mode,
                               random_.below(100));
        break;
      case 4:
        (void)meta_->unlink(root_, directory, name, nullptr);
        break;
      case 5:
        (void)meta_->remove_directory(root_, directory, name, nullptr);
        break;
      case 6:
      case 7:
        (void)meta_->rename(root_, directory, name, any_directory(), any_name(),
                            {.no_replace = false, .exchange = random_.chance(1, 4)}, nullptr);
        break;
      case 8:
        if (const auto found = meta_->lookup(root_, directory, name)) {
          (void)meta_->link(root_, found->inode, any_directory(), any_name());
        }
        break;
      case 9:
      case 10:
        change(directory, name);
        break;
      case 11:
        if (const auto id = meta_->unused_id()) {
          (void)meta_->create_unnamed(root_, directory, mode, *id);
        }
        break;
      case 12:
        if (const auto gone = meta_->orphans(1, InodeId(random_.below(3000)))) {
          if (!gone->empty()) (void)meta_->forget(gone->front());
        }
        break;
      default:
        (void)meta_->create(root_, directory, name, mode, true);
    }
  }

  void change(InodeId directory, const std::string& name) {
    const auto found = meta_->lookup(root_, directory, name);
    if (!found) return;
    const std::string attribute = "trusted." + any_name();
    switch (random_.below(5)) {
      case 0:
        (void)meta_->set_xattr(root_, found->inode, attribute, std::string(random_.below(9), '\1'),
                               meta::XattrMode::any);
        break;
      case 1:
        (void)meta_->remove_xattr(root_, found->inode, attribute);
        break;
      case 2:
        (void)meta_->begin_write(found->inode);
        break;
      case 3: {
        meta::Settled settled{.length = random_.below(1 << 20), .modified = clock_.wall()};
        settled.end_session = random_.chance(1, 2);
        settled.sparse = random_.chance(1, 2);
        (void)meta_->settle(found->inode, settled, false);
        break;
      }
      default: {
        meta::SetAttributes changes;
        changes.uid = static_cast<uint32_t>(random_.below(5));
        changes.modified = meta::FileTime::from_raw(random_.below(meta::FileTime::kRawMax + 1));
        (void)meta_->set_attributes(root_, found->inode, changes);
      }
    }
  }

  // Downward from the root by chance.
  InodeId any_directory() {
    InodeId at = meta::kRootInode;
    while (random_.chance(2, 3)) {
      const auto below = meta_->lookup(root_, at, any_name());
      if (!below || below->type != FileType::directory) break;
      at = below->inode;
    }
    return at;
  }
  std::string any_name() {
    constexpr const char* kNames[] = {"a", "b", "c c", "d\\", "\xff\xfe", "f\n", "name=g", "h"};
    return kNames[random_.below(std::size(kNames))];
  }

  const meta::Credentials root_;
  engine::SeededRandom random_;
  TickingClock clock_;
  std::unique_ptr<meta::Meta> meta_;
};

// `loaded`: called when that is done.
void go_there_and_back(
    engine::Kv& kv, engine::Kv& other, uint64_t seed, const std::function<void()>& loaded = [] {}) {
  SCOPED_TRACE(seed);
  World(kv, seed).live(400);
  const std::string text = dump_of(kv, seed);
  engine::SeededRandom random(seed);
  StringSource source(text, 1 + random.below(500));
  const auto counts = load(other, random, source, {});
  ASSERT_TRUE(counts.has_value()) << counts.error().message;
  ASSERT_EQ(dump_of(other, seed), text);
  loaded();
  // The same things happen to both from now on, and come out the same.
  World(kv, seed + 1'000'000).live(400);
  World(other, seed + 1'000'000).live(400);
  const std::string later = dump_of(kv, seed);
  ASSERT_EQ(dump_of(other, seed), later);
  ASSERT_NE(later, text);
}

TEST(RoundTrip, in_memory_is_the_same_namespace) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto kv = kv::make_memory_kv(), other = kv::make_memory_kv();
    go_there_and_back(*kv, *other, seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RoundTrip, on_rocksdb_is_the_same_namespace) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const test::ScratchDirectory directory;
    auto kv = kv::open_rocksdb({.path = directory / "one", .create = true});
    auto other = kv::open_rocksdb({.path = directory / "other", .create = true});
    ASSERT_TRUE(kv.has_value() && other.has_value());
    go_there_and_back(**kv, **other, seed);
  }
}

TEST(RoundTrip, in_simulation_is_the_same_namespace) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    sim::SimWorld world(seed);
    sim::SimKvImage image(world), other_image(world);
    for (sim::SimKvImage* each : {&image, &other_image}) {
      each->faults.conflict_permille = 50;
      each->faults.unknown_commit_permille = 20;
    }
    sim::SimKv kv(image), other(other_image);
    go_there_and_back(kv, other, seed, [&] {
      // A transaction that is repeated asks for the time again.
      image.faults = other_image.faults = {};
    });
    if (testing::Test::HasFailure()) return;
  }
}

// Lets so many transactions run, and then cuts the power, before or after the last one.
class CutKv final : public engine::Kv {
 public:
  CutKv(sim::SimKvImage& image, uint64_t until, bool after)
      : image_(image), kv_(image), until_(until), after_(after) {}

  void submit(engine::KvOp&) override { FAIL() << "a load waits for its transactions"; }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    const bool last = ++runs_ == until_;
    if (last && !after_) image_.power_cut();
    const Status status = kv_.run(op);
    if (last && after_) image_.power_cut();
    return status;
  }
  Status sync() override { return kv_.sync(); }
  bool was_cut() const { return runs_ >= until_; }

 private:
  sim::SimKvImage& image_;
  sim::SimKv kv_;
  const uint64_t until_;
  const bool after_;
  uint64_t runs_ = 0;
};

// The power goes at each moment of a load: what is found afterwards is nothing, what Meta refuses,
// or all of it.
void cut_a_load(const std::string& text, uint64_t until, bool after, uint64_t seed, int* loaded) {
  SCOPED_TRACE(fmt::format("transaction {}, after it: {}, seed {}", until, after, seed));
  sim::SimWorld world(seed);
  sim::SimKvImage image(world);
  bool succeeded = false;
  {
    CutKv kv(image, until, after);
    engine::SeededRandom random(seed);
    StringSource source(text);
    succeeded = load(kv, random, source, {}).has_value();
    if (!kv.was_cut()) image.power_cut();
  }
  sim::SimKv kv(image);
  if (image.content().empty()) {
    // Nothing has begun: the first transaction looks, and the second one begins.
    EXPECT_TRUE(until == 1 || (until == 2 && !after));
    return;
  }
  const auto opened = meta::Meta::open(kv, engine::system_clock(), {});
  if (succeeded) {
    ASSERT_TRUE(opened.has_value());
  }
  if (!opened) return;
  ++*loaded;
  // The opening itself changes no line.
  EXPECT_EQ(dump_of(kv), text);
}

TEST(PowerCut, in_a_load_leaves_all_of_it_or_nothing_that_opens) {
  const auto kv = kv::make_memory_kv();
  const auto meta = meta::Meta::open(*kv, engine::system_clock(), {});
  ASSERT_TRUE(meta.has_value());
  // Some batches.
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE((*meta)->create({}, meta::kRootInode, std::to_string(i), 0600, true).has_value());
  }
  const std::string text = dump_of(*kv);
  int loaded = 0, cuts = 0;
  for (uint64_t until = 1; until <= 12; ++until) {
    for (const bool after : {false, true}) {
      cut_a_load(text, until, after, until, &loaded);
      ++cuts;
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(loaded, 0);
  EXPECT_GT(cuts - loaded, 10);
}

}  // namespace
}  // namespace penstock::meta_text
