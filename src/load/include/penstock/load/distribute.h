// A spread by real transfers, in the calling thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "penstock/engine.h"
#include "penstock/load/spread.h"
#include "penstock/route.h"

namespace penstock::load {

// The transfers that move the bytes of one link.
struct FileTransfers {
  route::Transfers* transfers = nullptr;
  std::vector<uint32_t> files;  // the handle of each of the order's files with these transfers
};

// Told in the calling thread how far it is, now and then and at the end; false: give up.
using Progress = std::function<bool(uint64_t bytes_done, uint64_t bytes_total)>;

// Returns when everything has arrived, or when nothing is in flight any more after the first
// failure: with cancelled when `progress` (which may be null) said so, with timed_out after the
// order's deadline. `transfers` has one for each link.
Outcome<Counts> distribute(const Order& order, std::span<const FileTransfers> transfers,
                           const engine::Clock& clock, const Progress& progress);

}  // namespace penstock::load
