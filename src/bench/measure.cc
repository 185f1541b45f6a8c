#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <linux/perf_event.h>
#include <new>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "penstock/bench.h"
#include "penstock/engine.h"

namespace {
// Relaxed: a count that nothing depends on.
std::atomic<uint64_t> allocation_count{0};
}  // namespace

// The whole program's allocations pass here, so that a benchmark can show that the data path makes
// none. The cost elsewhere is one relaxed increment. Not inlined, since g++ would then see malloc()
// matched with operator delete and warn.
[[gnu::noinline]] void* operator new(size_t size) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace penstock::bench {
namespace {

int system_call_counter = -1;

double seconds_of(const timeval& value) {
  return static_cast<double>(value.tv_sec) + static_cast<double>(value.tv_usec) * 1e-6;
}

std::optional<uint64_t> system_calls_now() {
  uint64_t count = 0;
  if (system_call_counter < 0 ||
      ::read(system_call_counter, &count, sizeof count) != sizeof count) {
    return std::nullopt;
  }
  return count;
}

int64_t now() {
  return engine::system_clock().now().time_since_epoch().count();
}

}  // namespace

bool start_counting_system_calls() {
  if (system_call_counter >= 0) return true;
  for (const char* root : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    std::ifstream file(std::string(root) + "/events/raw_syscalls/sys_enter/id");
    uint64_t id = 0;
    if (!(file >> id)) continue;
    perf_event_attr attributes{};
    attributes.type = PERF_TYPE_TRACEPOINT;
    attributes.size = sizeof attributes;
    attributes.config = id;
    attributes.inherit = 1;
    system_call_counter =
        static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
    return system_call_counter >= 0;
  }
  return false;
}

ProcessMeter::ProcessMeter() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  user_ = seconds_of(usage.ru_utime);
  system_ = seconds_of(usage.ru_stime);
  allocations_ = allocation_count.load(std::memory_order_relaxed);
  system_calls_ = system_calls_now();
  started_ = now();
}

void ProcessMeter::stop(Measurement* measurement) const {
  measurement->seconds = static_cast<double>(now() - started_) / 1e9;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  measurement->user_seconds = seconds_of(usage.ru_utime) - user_;
  measurement->system_seconds = seconds_of(usage.ru_stime) - system_;
  measurement->allocations = allocation_count.load(std::memory_order_relaxed) - allocations_;
  if (system_calls_) measurement->system_calls = system_calls_now().value_or(0) - *system_calls_;
}

double crc_nanoseconds_per_block() {
  constexpr int kBlocks = 20'000;
  std::vector<std::byte> block(limits::kBlockBytes, std::byte{0x5a});
  uint32_t crc = 0;
  const int64_t start = now();
  for (int i = 0; i < kBlocks; ++i) crc = crc32c(block, crc);
  const double nanoseconds = static_cast<double>(now() - start) / kBlocks;
  // The result is used, so that the loop is not taken away.
  return crc == 0 ? nanoseconds + 1e-9 : nanoseconds;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle), values.end());
  if (values.size() % 2 == 1) return values[middle];
  const double upper = values[middle];
  return (upper +
          *std::max_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle))) /
         2;
}

}  // namespace penstock::bench
