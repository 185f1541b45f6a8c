// What one PE does to another one's host memory.
#pragma once

#include "timing.h"

#include <vector>

#include "penstock/symm.h"

namespace penstock::bench {

// The calls of this PE, and its part in those of others. One thread.
class SymmHost {
 public:
  // Together with all ranks of the job: memory of so many bytes each, and as much to put from.
  static Outcome<std::unique_ptr<SymmHost>> join(job::Member& member, uint64_t bytes);

  symm::Group& group() { return *group_; }
  uint64_t bytes() const { return here_.size(); }
  std::byte* here() { return here_.data(); }
  std::byte* there() const { return there_; }  // symmetric
  uint64_t* word() const { return word_; }     // symmetric, alone in its cache line

  // Many calls, and what is needed so that all of them have had their effect.
  Status puts(uint64_t calls, uint64_t bytes, uint32_t pe);
  // The same, with a quiet after each.
  Status quiet_puts(uint64_t calls, uint64_t bytes, uint32_t pe);
  Status gets(uint64_t calls, uint64_t bytes, uint32_t pe);
  // Words to and fro: both PEs, one in echo() until the other one calls end_echo(). Counts both
  // ways as one call.
  Status pings(uint64_t calls, uint64_t bytes, uint32_t pe);
  Status end_echo(uint32_t pe);
  Status echo(uint64_t bytes, uint32_t pe);

 private:
  explicit SymmHost(std::unique_ptr<symm::Group> group) : group_(std::move(group)) {}
  Status send(uint64_t value, uint64_t bytes, uint32_t pe);
  Status wait_for(uint64_t value);

  std::unique_ptr<symm::Group> group_;
  std::vector<std::byte> here_;
  std::byte* there_ = nullptr;
  uint64_t* word_ = nullptr;
  uint64_t turn_ = 0;
};

}  // namespace penstock::bench
