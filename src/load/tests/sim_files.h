// Files in memory behind a HostSource: late, out of order, failing, and shorter than they were.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "penstock/route.h"
#include "penstock/sim.h"

namespace penstock::load {

class SimFiles final : public route::HostSource {
 public:
  SimFiles(engine::Loop& loop, engine::Random& random) : loop_(loop), random_(random) {}
  ~SimFiles() override { ASSERT(pending_.empty()); }

  std::vector<std::byte>& file(uint32_t id) { return files_[id]; }
  // So long takes whoever carries for it, a piece of its time by the mover's slots.
  engine::Duration delay_max = std::chrono::microseconds(300);
  uint32_t error_permille = 0;

  void submit(route::HostIo& io) override {
    const auto delay =
        static_cast<int64_t>(random_.below(static_cast<uint64_t>(delay_max.count()) + 1));
    pending_.push_back({&io, loop_.now() + engine::Duration(delay)});
  }
  void cancel(route::HostIo& io) override {
    for (Pending& one : pending_) {
      if (one.io == &io) one.cancelled = true;
    }
  }
  bool find(uint32_t, uint64_t, uint64_t, route::Resident*) override { return false; }
  bool still_there(const route::Resident&) override { return false; }
  void release(const route::Resident&) override {}
  void sleep(engine::Time) override {}
  void rouse() override {}

  bool poll() override {
    bool worked = false;
    for (size_t i = 0; i < pending_.size();) {
      const Pending one = pending_[i];
      if (one.due > loop_.now() && !one.cancelled) {
        ++i;
        continue;
      }
      pending_[i] = pending_.back();
      pending_.pop_back();
      loop_.complete(*one.io, one.cancelled ? Status(Code::cancelled) : read(*one.io));
      worked = true;
    }
    return worked;
  }

 private:
  struct Pending {
    route::HostIo* io = nullptr;
    engine::Time due;
    bool cancelled = false;
  };

  Status read(route::HostIo& io) {
    io.transferred = 0;
    io.route = engine::Route::disk_direct;
    if (error_permille != 0 && random_.chance(error_permille, 1000)) return Code::io_error;
    const std::vector<std::byte>& bytes = files_[io.file];
    if (io.offset >= bytes.size()) return Code::ok;
    io.transferred = std::min<uint64_t>(io.memory.length, bytes.size() - io.offset);
    std::memcpy(io.memory.data, &bytes[io.offset], io.transferred);
    return Code::ok;
  }

  engine::Loop& loop_;
  engine::Random& random_;
  std::map<uint32_t, std::vector<std::byte>> files_;
  std::vector<Pending> pending_;
};

}  // namespace penstock::load
