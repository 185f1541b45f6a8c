// The ring behind hf3fs_ior: batches, slots and completions over one lane of a native ring.
#pragma once

#include "files.h"
#include "flush_timer.h"
#include "hf3fs_usrbio.h"
#include "iovs.h"
#include "limits.h"
#include "penstock.h"
#include "slots.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <time.h>

#include "penstock/front.h"

namespace penstock::usrbio {

struct RingOptions {
  uint32_t entries = 0;
  bool for_read = true;
  int io_depth = 0;
  uint64_t timeout_ns = 0;
  bool refuse_holes = false;
};

// How many of `held` submitted operations may be passed on now, as whole batches or because the
// time of the oldest has come. The rest waits.
uint32_t passable(const RingOptions& options, uint32_t held, bool expired);

// One thread at a time in prepare() and submit(); any number in wait(), of which one takes
// completions and the others wait for it; and the timer's thread in flush().
class Ring final : public Flushable {
 public:
  // Errors are positive errnos.
  static Result<std::unique_ptr<Ring>, int> create(front::Session& session, FlushTimer& timer,
                                                   const RingOptions& options);
  ~Ring() override;
  // Waits for the end of what is in flight.
  void close();

  // The bodies of hf3fs_prep_io and so on.
  int prepare(Iovs& iovs, Files& files, const hf3fs_iov& iov, bool read, void* ptr, int fd,
              size_t offset, uint64_t length, const void* userdata);
  int submit();
  int wait(hf3fs_cqe* cqes, uint32_t max, uint32_t min, const timespec* until);

  uint64_t flush(uint64_t now) override;

 private:
  Ring(front::Session& session, FlushTimer& timer, const RingOptions& options);

  int prepare_parts(penstock_io& io, uint32_t slot, uint32_t parts);
  uint32_t parts_in_flight() const;
  int pass_on(uint32_t operations);
  int submit_held(uint64_t now);
  bool become_waiter(uint64_t deadline);
  void stop_waiting();
  int take(hf3fs_cqe* cqes, uint32_t max, uint32_t min, uint64_t deadline);
  bool collect(const penstock_completion& completion, hf3fs_cqe& cqe);

  front::Session& session_;
  FlushTimer& timer_;
  const RingOptions options_;
  const bool timed_;  // operations may wait for their batch, and not for ever
  penstock_lane* lane_ = nullptr;
  const std::unique_ptr<Slot[]> slots_;
  FreeSlots free_;

  // The submitting side. Rings whose timer may submit share it under the mutex; others never lock.
  std::mutex submitting_;
  // How many native operations each prepared operation is, in order: indexed by the running number
  // of the operation, modulo the capacity.
  const uint32_t order_mask_;
  const std::unique_ptr<uint32_t[]> order_;
  uint32_t prepared_ = 0;   // running numbers: prepared,
  uint32_t submitted_ = 0;  // handed over by submit(),
  uint32_t passed_ = 0;     // and passed on to the agent
  uint32_t parts_prepared_ = 0;
  uint64_t held_since_ = 0;  // when the oldest held operation was submitted

  // The waiting side. Release by the waiter pairs with the acquire in parts_in_flight(): the native
  // ring has room again.
  alignas(64) std::atomic<uint32_t> parts_completed_{0};
  // Whether a thread is at the completions. Sequentially consistent: each sees what the one before
  // it has done.
  std::atomic<bool> waiting_{false};
  std::atomic<uint32_t> queued_{0};  // threads that wait to be the one at the completions
  std::mutex waiters_;
  std::condition_variable may_wait_;
};

}  // namespace penstock::usrbio
