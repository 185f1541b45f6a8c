// Reads of a lane that the node cache answers.
#include "lane.h"
#include "limits.h"
#include "session.h"

#include "penstock/engine.h"

namespace penstock::api {

// The view of the newest connection; null where there is no cache, or not yet.
CacheView* Lane::cache_view() {
  CacheMap& map = session_.cache();
  const uint64_t serial = map.serial();
  if (serial != view_serial_) {
    view_ = map.view();
    view_serial_ = serial;
  }
  return view_.get();
}

void Lane::let_go_of_cache() {
  // Whoever is in the lane looks for itself, now or the next time.
  const std::unique_lock side(submitting_, std::try_to_lock);
  if (side.owns_lock()) (void)cache_view();
}

void Lane::prefetch(const CacheView& view, uint32_t slot) const {
  const Slot& next = slots_[slot];
  if (next.read_to == nullptr) return;
  view.prefetch_bytes(session_.inode_of(next.entry.file), next.entry.offset);
}

// Tries to do without the agent, at the moment at which it would have been asked. True if the
// operation is complete.
bool Lane::answer(CacheView& view, uint32_t slot) {
  Slot& own = slots_[slot];
  const ring::Submission& entry = own.entry;
  // Holes are known to the store alone, and who may not read is told so by the agent.
  if (own.read_to == nullptr || entry.flags != 0 || entry.length > limits::kCacheReadMax ||
      (session_.access_of(static_cast<int32_t>(entry.file)) & wire::kOpenRead) == 0) {
    return false;
  }
  const auto bytes = view.read(session_.inode_of(entry.file), entry.offset,
                               {own.read_to, static_cast<size_t>(entry.length)}, &hits_);
  if (!bytes) {
    if (view.wants_more()) session_.cache().want();
    return false;
  }
  put_answer({slot, engine::Route::cache, static_cast<int64_t>(*bytes)});
  return true;
}

void Lane::put_answer(const Answer& answer) {
  slots_[answer.slot].state.store(State::answered, std::memory_order_release);
  const uint32_t made = answers_made_.load(std::memory_order_relaxed);
  answers_[made & (entries_ - 1)] = answer;
  answers_made_.store(made + 1, std::memory_order_release);
}

// As transfer_ended(): the waiter may be another thread, and asleep.
void Lane::tell_answers() {
  roused_.store(true, std::memory_order_seq_cst);
  if (queues_.is_asleep()) queues_.rouse();
}

uint32_t Lane::take_answers(penstock_completion* completions, uint32_t max) {
  const uint32_t made = answers_made_.load(std::memory_order_acquire);
  uint32_t count = 0;
  while (count < max && answers_taken_ != made) {
    const Answer& from = answers_[answers_taken_++ & (entries_ - 1)];
    completions[count++] = {
        slots_[from.slot].entry.user_data, from.result, static_cast<uint8_t>(from.route), {}};
    give_free_slot(from.slot);
  }
  if (count > 0) in_flight_.fetch_sub(count, std::memory_order_release);
  return count;
}

}  // namespace penstock::api
