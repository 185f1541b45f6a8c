// What goes out with one send: small frames gathered in the batch's own memory, and large payload
// that is sent from where it lies.
#pragma once

#include "limits.h"

#include <array>
#include <memory>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

#include "penstock/engine.h"
#include "penstock/tcp/frame.h"

namespace penstock::tcp {

// Owner thread only. Filled, then sent from its beginning to its end, perhaps in several sends.
class Batch {
 public:
  bool empty() const { return count_ == 0; }
  // Whether so many bytes more can be gathered, and perhaps payload behind them.
  bool has_room(size_t bytes, uint64_t payload = 0) const;
  // has_room() said so. The bytes are to be written at once.
  std::byte* append(size_t bytes);
  void append(const Header& header, Bytes message = {});
  // Bytes of `owner`, which stay where they are until they were sent or replaced.
  void append_payload(Bytes payload, engine::Op& owner);

  // What is still to be sent; valid until the batch changes.
  msghdr* unsent();
  // The first piece of that; empty: nothing is left.
  Bytes next() const;
  // So many bytes of that have gone. True when none is left.
  bool advance(size_t count);
  // Calls `done` for the owner of each payload, and is empty again.
  template <class Done>
  void end(Done&& done) {
    ASSERT(first_ == count_);
    for (uint32_t i = 0; i < count_; ++i) {
      if (owners_[i] != nullptr) done(*owners_[i]);
    }
    reset();
  }

  bool has(const engine::Op& owner) const;
  // What is left of its payload is sent from a copy from now on: its memory is looked at no more.
  // Allocates; this is for calls that end early. No send may be under way.
  void replace(const engine::Op& owner);
  // For a connection that has ended: nothing of it will be sent.
  void drop() { first_ = count_; }

 private:
  friend class BatchPool;
  void reset();

  uint32_t used_ = 0;  // of memory_
  uint32_t count_ = 0;
  uint32_t first_ = 0;      // that has not gone whole
  bool gathering_ = false;  // the last piece ends where memory_ is free
  uint64_t payload_bytes_ = 0;
  Batch* next_free_ = nullptr;
  std::array<iovec, limits::kBatchPieces> pieces_;
  std::array<engine::Op*, limits::kBatchPieces> owners_;
  std::vector<std::vector<std::byte>> copies_;
  msghdr message_{};
  std::array<std::byte, limits::kBatchBytes> memory_;
};

// Batches of one loop. Made when they are needed, up to a limit, and kept.
class BatchPool {
 public:
  ~BatchPool();
  Batch* take();  // null: all are taken
  void give_back(Batch& batch);

 private:
  std::vector<std::unique_ptr<Batch>> all_;
  Batch* free_ = nullptr;
  uint32_t taken_ = 0;
};

}  // namespace penstock::tcp
