// Addresses that stand for memory which this process cannot touch: a GPU's, which network cards
// reach.
#pragma once

#include <memory>

#include "penstock/base.h"
#include "penstock/resources/accounts.h"

namespace penstock::resources {

// Nobody else in this process has them. Touching them is SIGSEGV.
class DeviceAddresses {
 public:
  // `size` bytes, as far into a page as `offset`, which is how cards want it. `account` pays for
  // the mapping as long as they are reserved; busy where it has not enough.
  static Outcome<std::unique_ptr<DeviceAddresses>> reserve(const std::shared_ptr<Account>& account,
                                                           uint64_t offset, uint64_t size);
  ~DeviceAddresses();
  DeviceAddresses(const DeviceAddresses&) = delete;
  DeviceAddresses& operator=(const DeviceAddresses&) = delete;

  MutableBytes bytes() const { return bytes_; }

 private:
  DeviceAddresses(Charge mapping_charge, MutableBytes reserved, MutableBytes bytes)
      : charge_(std::move(mapping_charge)), reserved_(reserved), bytes_(bytes) {}

  const Charge charge_;
  const MutableBytes reserved_;
  const MutableBytes bytes_;
};

}  // namespace penstock::resources
