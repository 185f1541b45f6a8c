// Threads that carry out what nodes ask, each node in its turn: none has more than a share of them,
// however much it asks and however slow that is.
#pragma once

#include <functional>
#include <map>

#include "penstock/engine.h"

namespace penstock::meta_net {

class Turns {
 public:
  struct Item : ListNode {
    NodeId node;
  };
  using Body = std::function<void(Item&)>;

  // `body` carries out an item in any of the threads, and has it from then on.
  Turns(uint32_t threads, uint32_t threads_per_node, Body body);
  ~Turns();  // nothing waits; ends the threads

  // How many wait is for whoever submits to bound. Any thread.
  void submit(Item& item);
  // What waits is handed to `refuse`, without a lock. Any thread.
  void refuse_waiting(const std::function<void(Item&)>& refuse);

 private:
  // One node's items, in their order. It is in the list of those that have a turn while it has
  // items and fewer threads than its share.
  struct Queue : ListNode {
    IntrusiveList<Item> waiting;
    uint32_t running = 0;
  };

  bool do_next(engine::WorkerThreads::Lock& lock);
  void give_turn(Queue& queue);

  const uint32_t threads_per_node_;
  const Body body_;
  engine::Mutex mutex_;
  // Under the mutex. A node is here while it has items that wait or run.
  std::map<NodeId, Queue> queues_;
  IntrusiveList<Queue> turns_;
  engine::WorkerThreads threads_;  // last: they use everything above
};

}  // namespace penstock::meta_net
