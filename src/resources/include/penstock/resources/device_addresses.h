// Addresses that stand for memory which this process cannot touch: a GPU's, which network cards
// reach.
#pragma once

#include <memory>

#include "penstock/base.h"

namespace penstock::resources {

// Nobody else in this process has them, and nothing is mapped there, nor will be: touching them is
// SIGSEGV, or EFAULT in the kernel. They cost nothing, whatever their number.
class DeviceAddresses {
 public:
  // `size` bytes, 1 TiB at most, as far into a page as `offset`, which is how cards want it. busy
  // when none are left.
  static Result<std::unique_ptr<DeviceAddresses>> take(uint64_t offset, uint64_t size);
  // Others may have them from now on.
  ~DeviceAddresses();
  DeviceAddresses(const DeviceAddresses&) = delete;
  DeviceAddresses& operator=(const DeviceAddresses&) = delete;

  MutableBytes bytes() const { return bytes_; }

 private:
  explicit DeviceAddresses(MutableBytes bytes) : bytes_(bytes) {}

  const MutableBytes bytes_;
};

}  // namespace penstock::resources
