// What a group has mapped: its own memory and the windows onto the others'.
#pragma once

#include "penstock/base.h"
#include "penstock/symm/group.h"

namespace penstock::symm {

// Addresses of the process, given back in the end.
class Addresses {
 public:
  Addresses() = default;
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses();

  // Reserves them; nothing can be read or written there before it is mapped.
  Status reserve(uint64_t bytes);
  // Memory behind a descriptor, from its beginning, at `offset` of them.
  Status map(uint64_t offset, uint64_t bytes, int descriptor);
  std::byte* begin() const { return begin_; }

 private:
  std::byte* begin_ = nullptr;
  uint64_t bytes_ = 0;
};

// What meetings of a group's ranks are called.
std::string exchange_name(const std::string& group, const std::string& what);
std::chrono::nanoseconds join_time(const GroupOptions& options);

struct Group::Mapped {
  bool is_crowded = false;  // all PEs say the same: they meet in another way then
  Window memory;
  Window data;
  Addresses memory_addresses;
  Addresses data_addresses;
};

}  // namespace penstock::symm
