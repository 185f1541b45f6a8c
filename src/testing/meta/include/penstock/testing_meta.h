// A file system for tests, over any of the key-value stores.
#pragma once

#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "penstock/kv.h"
#include "penstock/meta.h"
#include "penstock/sim.h"
#include "penstock/testing.h"

namespace penstock::meta {

// Every call is a nanosecond later, so that changed times differ. Single-threaded tests only read
// it from one thread.
class TickingClock final : public engine::Clock {
 public:
  engine::Time now() const override { return engine::Time(engine::Duration(tick())); }
  engine::WallTime wall() const override { return {tick()}; }

 private:
  int64_t tick() const { return 1'000'000 + ticks_.fetch_add(1, std::memory_order_relaxed); }
  mutable std::atomic<int64_t> ticks_{0};
};

// What outlives a Meta: open() may be called again and again.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual engine::Kv& kv() = 0;
  // Ends the process, in effect, and starts another.
  virtual void restart() = 0;
};

class MemoryStorage final : public Storage {
 public:
  engine::Kv& kv() override { return *kv_; }
  void restart() override {}

 private:
  std::unique_ptr<engine::Kv> kv_ = kv::make_memory_kv();
};

class RocksDbStorage final : public Storage {
 public:
  RocksDbStorage() { restart(); }
  engine::Kv& kv() override { return *kv_; }
  void restart() override {
    kv_.reset();
    auto opened = kv::open_rocksdb({.path = directory_ / "db", .create = true});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    kv_ = std::move(*opened);
  }

 private:
  const test::ScratchDirectory directory_;
  std::unique_ptr<engine::Kv> kv_;
};

class SimStorage final : public Storage {
 public:
  explicit SimStorage(uint64_t seed) : world_(seed) {
    ASSERT(world_now() == nullptr);
    world_now() = &world_;
    image_.faults.conflict_permille = 50;
    image_.faults.unknown_commit_permille = 20;
  }
  ~SimStorage() override { world_now() = nullptr; }
  // The one that there is at the moment.
  static sim::SimWorld*& world_now() {
    static sim::SimWorld* world = nullptr;
    return world;
  }
  engine::Kv& kv() override { return *kv_; }
  void restart() override {
    image_.kill();
    kv_ = std::make_unique<sim::SimKv>(image_);
  }
  void power_cut() {
    image_.power_cut();
    kv_ = std::make_unique<sim::SimKv>(image_);
  }

 private:
  sim::SimWorld world_;
  sim::SimKvImage image_{world_};
  std::unique_ptr<sim::SimKv> kv_ = std::make_unique<sim::SimKv>(image_);
};

inline std::unique_ptr<Storage> make_storage(const std::string& name, uint64_t seed = 1) {
  if (name == "memory") return std::make_unique<MemoryStorage>();
  if (name == "rocksdb") return std::make_unique<RocksDbStorage>();
  return std::make_unique<SimStorage>(seed);
}

// How tests come to a Meta. A library that makes others runs the tests of this one with its own.
using Opener =
    std::function<Outcome<std::unique_ptr<Meta>>(engine::Kv&, const engine::Clock&, MetaOptions)>;
inline Opener& opener() {
  static Opener opener = &Meta::open;
  return opener;
}

// Of long random runs on threads of the machine, one in so many is made: where each call of a Meta
// takes much longer than it does here.
inline uint64_t& one_run_in() {
  static uint64_t so_many = 1;
  return so_many;
}

inline std::unique_ptr<Meta> open_meta(engine::Kv& kv, const engine::Clock& clock,
                                       MetaOptions options = {}) {
  auto opened = opener()(kv, clock, std::move(options));
  EXPECT_TRUE(opened.has_value()) << opened.error().message;
  return opened ? std::move(*opened) : nullptr;
}

inline Code code_of(Status status) {
  return status.code();
}
template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::ok : result.error().code();
}

}  // namespace penstock::meta

namespace penstock {
// For messages of failed comparisons.
inline void PrintTo(Code code, std::ostream* out) {
  *out << Status(code).name();
}
}  // namespace penstock
