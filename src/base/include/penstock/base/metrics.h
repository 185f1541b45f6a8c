// Counters that `penstock status` and benchmarks show.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::metrics {

// A named count. Made once, at start or as a function-local static, and may be destroyed only when
// no thread adds to it any more; names look like "store.read.bytes". One writer thread per counter
// costs nothing; several writers are correct but share a cache line.
class Counter {
 public:
  explicit Counter(std::string_view name);
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  ~Counter();

  // Relaxed: counts order nothing.
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  alignas(64) std::atomic<uint64_t> value_{0};
};

struct Sample {
  std::string name;
  uint64_t value = 0;
};

// All counters of the process, sorted by name; counters of one name (one per shard, say) are added.
std::vector<Sample> snapshot();

}  // namespace penstock::metrics
