#include "turns.h"

namespace penstock::meta_net {

Turns::Turns(uint32_t threads, uint32_t threads_per_node, Body body)
    : threads_per_node_(threads_per_node),
      body_(std::move(body)),
      threads_(mutex_,
               {.name = "meta calls", .what = "a thread for calls of meta", .count_max = threads},
               [this](engine::WorkerThreads::Lock& lock) { return do_next(lock); }) {
  ASSERT(threads_per_node_ > 0 && threads_per_node_ <= threads);
}

Turns::~Turns() {
  threads_.stop();
  ASSERT(queues_.empty() && turns_.empty());
}

void Turns::submit(Item& item) {
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[item.node];
    queue.waiting.push_back(item);
    give_turn(queue);
  }
  threads_.wake();
}

void Turns::refuse_waiting(const std::function<void(Item&)>& refuse) {
  IntrusiveList<Item> refused;
  {
    const std::lock_guard lock(mutex_);
    while (turns_.pop_front() != nullptr) {
    }
    for (auto at = queues_.begin(); at != queues_.end();) {
      refused.take_all(at->second.waiting);
      at = at->second.running == 0 ? queues_.erase(at) : std::next(at);
    }
  }
  while (Item* item = refused.pop_front()) refuse(*item);
}

void Turns::give_turn(Queue& queue) {
  const bool may_run = !queue.waiting.empty() && queue.running < threads_per_node_;
  if (may_run && !queue.linked()) turns_.push_back(queue);
}

bool Turns::do_next(engine::WorkerThreads::Lock& lock) {
  Queue* const queue = turns_.pop_front();
  if (queue == nullptr) return false;
  Item& item = *queue->waiting.pop_front();
  const NodeId node = item.node;
  ++queue->running;
  give_turn(*queue);
  lock.unlock();
  body_(item);
  lock.lock();
  ASSERT(queue->running > 0);
  --queue->running;
  give_turn(*queue);
  if (queue->running == 0 && queue->waiting.empty()) queues_.erase(node);
  return true;
}

}  // namespace penstock::meta_net
