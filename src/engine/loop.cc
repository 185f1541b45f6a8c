#include <algorithm>

#include "penstock/engine.h"

namespace penstock::engine {

Loop::Loop(const Clock& clock, Random& random, Parker& parker, Duration spin)
    : clock_(clock), random_(random), parker_(parker), spin_(spin), now_(clock.now()) {}

Loop::~Loop() {
  ASSERT(ready_.empty() && running_.empty() && timers_.empty());
  ASSERT(remote_.load(std::memory_order_relaxed) == nullptr);
}

void Loop::complete(Op& op, Status status) {
  op.status = status;
  ready_.push_back(op);
}

void Loop::complete_remote(Op& op, Status status) {
  op.status = status;
  Op* head = remote_.load(std::memory_order_relaxed);
  do {
    op.remote_next_ = head;
    // `op` belongs to the loop as soon as this succeeds.
  } while (!remote_.compare_exchange_weak(head, &op, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
  if (asleep_.load(std::memory_order_seq_cst)) parker_.unpark();
}

bool Loop::take_remote() {
  if (remote_.load(std::memory_order_relaxed) == nullptr) return false;
  Op* newest = remote_.exchange(nullptr, std::memory_order_acquire);
  Op* oldest = nullptr;
  while (newest != nullptr) {
    Op* next = newest->remote_next_;
    newest->remote_next_ = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Op* next = oldest->remote_next_;
    oldest->remote_next_ = nullptr;
    ready_.push_back(*oldest);
    oldest = next;
  }
  return true;
}

bool Loop::run_ready() {
  if (ready_.empty() && running_.empty()) return false;
  // What completes while these run waits for the next turn, so that no chain of completions can
  // keep the pollers from being asked. One of them may poll until another has run, which may be
  // in its own batch.
  running_.take_all(ready_);
  while (Op* op = running_.pop_front()) op->completion(*op);
  return true;
}

void Loop::start(Timer& timer, Time deadline) {
  ASSERT(timer.heap_index_ == SIZE_MAX);
  timer.deadline = deadline;
  timer.heap_index_ = timers_.size();
  timers_.push_back(&timer);
  heap_up(timer.heap_index_);
}

bool Loop::cancel(Timer& timer) {
  const size_t index = timer.heap_index_;
  if (index == SIZE_MAX) {
    // Due, and waiting in ready_ for its turn: take it back.
    if (!timer.linked()) return false;
    timer.unlink();
    return true;
  }
  timer.heap_index_ = SIZE_MAX;
  Timer* last = timers_.back();
  timers_.pop_back();
  if (last != &timer) {
    timers_[index] = last;
    last->heap_index_ = index;
    heap_up(index);
    heap_down(last->heap_index_);
  }
  return true;
}

void Loop::heap_up(size_t index) {
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (timers_[parent]->deadline <= timers_[index]->deadline) return;
    std::swap(timers_[parent], timers_[index]);
    timers_[parent]->heap_index_ = parent;
    timers_[index]->heap_index_ = index;
    index = parent;
  }
}

void Loop::heap_down(size_t index) {
  while (true) {
    size_t least = index;
    for (const size_t child : {2 * index + 1, 2 * index + 2}) {
      if (child < timers_.size() && timers_[child]->deadline < timers_[least]->deadline) {
        least = child;
      }
    }
    if (least == index) return;
    std::swap(timers_[least], timers_[index]);
    timers_[least]->heap_index_ = least;
    timers_[index]->heap_index_ = index;
    index = least;
  }
}

bool Loop::fire_timers() {
  bool fired = false;
  while (!timers_.empty() && timers_.front()->deadline <= now_) {
    Timer& timer = *timers_.front();
    cancel(timer);
    complete(timer, Code::ok);
    fired = true;
  }
  return fired;
}

void Loop::add(Poller& poller) {
  pollers_.push_back(&poller);
}

void Loop::remove(Poller& poller) {
  std::erase(pollers_, &poller);
}

bool Loop::poll() {
  now_ = clock_.now();
  bool worked = take_remote();
  worked |= fire_timers();
  // What one of them begins may add another.
  for (size_t asked = 0; asked < pollers_.size(); ++asked) worked |= pollers_[asked]->poll();
  worked |= run_ready();
  return worked;
}

void Loop::sleep(Time deadline) {
  if (!timers_.empty()) deadline = std::min(deadline, timers_.front()->deadline);
  asleep_.store(true, std::memory_order_seq_cst);
  bool quiet = remote_.load(std::memory_order_seq_cst) == nullptr &&
               !stop_.load(std::memory_order_seq_cst) && ready_.empty();
  size_t asked = 0;
  while (quiet && asked < pollers_.size()) quiet = pollers_[asked++]->prepare_sleep();
  if (quiet) parker_.park(deadline);
  // There may be fewer by now, in a simulation that took some away while this thread slept.
  for (size_t i = 0; i < std::min(asked, pollers_.size()); ++i) pollers_[i]->woke();
  asleep_.store(false, std::memory_order_relaxed);
}

void Loop::run() {
  Threads* const simulated = Threads::simulated();
  Time last_work = clock_.now();
  Duration spin = spin_;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (poll()) {
      last_work = now_;
      if (simulated != nullptr) simulated->turn_ended();
    } else if (now_ - last_work >= spin) {
      sleep(kNever);
      const Time woke = clock_.now();
      // Had a whole spin found the work that came now? If not, spinning burns the processor for
      // nothing, perhaps the one that the others need in order to make work for us.
      spin = woke - last_work <= spin_ ? spin_ : spin / 2;
      last_work = woke;
    }
  }
}

void Loop::stop() {
  stop_.store(true, std::memory_order_seq_cst);
  parker_.unpark();
}

void Loop::poll_or_park(Time deadline) {
  if (!poll()) sleep(deadline);
}

}  // namespace penstock::engine
