// UniqueId: 128 bytes by which processes that something else started, on any nodes, become a job.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "penstock/base.h"

namespace penstock::job {

// Plain bytes, which a program copies to its other processes as it likes. Who has them may join:
// they hold a secret.
struct UniqueId {
  std::array<std::byte, 128> bytes{};
};

// The place that a unique id names: where the rooms of all nodes meet. It is in the process that
// made the id, and the job of several nodes is cut apart when that one ends. One id is for one job.
//
// All methods by one thread at a time. It has a thread of its own.
class Gate {
 public:
  // At a TCP port of its own, on addresses of these interfaces (is_interface_of()); empty: of all.
  static Outcome<std::unique_ptr<Gate>> open(const std::string& interface = "");
  // As close(), without waiting.
  ~Gate();

  const UniqueId& id() const;
  // Waits until all ranks that came have left or ended, but not longer than this.
  void close(std::chrono::milliseconds patience);

 private:
  class Impl;
  explicit Gate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::job
