// So that nothing happens twice: the last call of each slot of each caller, with its answer.
//
// A caller has one call at a time in a slot, each with a greater sequence than the one before, and
// repeats it until it has its answer. So the one answer is all that a slot needs, and any call of a
// smaller sequence is one that a network has kept back. Owner thread only: the service's loop.
#pragma once

#include "limits.h"

#include <compare>
#include <map>
#include <memory>
#include <string>

#include "penstock/engine.h"

namespace penstock::meta_net {

using AnswerBytes = std::shared_ptr<const std::string>;

class Slots {
  struct Slot;
  struct Caller;

 public:
  struct Name {
    NodeId node;
    uint64_t session = 0;
    uint64_t caller = 0;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  // A call that was let in, until its end.
  class Ticket {
   public:
    explicit operator bool() const { return slot_ != nullptr; }

   private:
    friend class Slots;
    std::map<Name, Caller>::iterator caller_;
    Slot* slot_ = nullptr;
    uint64_t sequence_ = 0;
  };
  struct Taken {
    enum class What : uint8_t {
      run,      // with a ticket
      wait,     // it is under way: `waiting` gets it
      answer,   // it has ended, with `answer`
      unknown,  // it has ended, and its answer was not kept
      old,      // a later one of the slot was here
      busy,     // there is no room for another caller
    } what = What::busy;
    Ticket ticket = {};
    AnswerBytes answer = {};
    IntrusiveList<ListNode>* waiting = nullptr;
    size_t* waiting_count = nullptr;
  };

  ~Slots();

  // `slot` is below kSlotsMax, `sequence` above 0.
  Taken take(const Name& name, uint32_t slot, uint64_t sequence, engine::Time now);
  // It has happened, or failed, with this answer.
  void end(Ticket ticket, AnswerBytes answer, engine::Time now);
  // It was not begun: it may come again.
  void give_up(Ticket ticket);

  // Calls that waited for another one and are to be told: those of the ticket, also where a later
  // call has its slot.
  void take_waiting(const Ticket& ticket, IntrusiveList<ListNode>& to);

  size_t callers() const { return callers_.size(); }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  // One call of a slot. The slot of a caller that has begun another before the end of this one
  // stays until that end.
  struct Slot {
    uint64_t sequence = 0;
    bool running = false;
    bool forgotten = false;
    AnswerBytes answer;
    IntrusiveList<ListNode> waiting;
    size_t waiting_count = 0;
  };
  struct Caller {
    std::map<uint32_t, std::unique_ptr<Slot>> slots;
    // Of which a later call has the place, and which still run.
    std::map<Slot*, std::unique_ptr<Slot>> left;
    size_t running = 0;
    engine::Time last{};
  };
  struct Kept {
    size_t bytes = 0;
    size_t callers = 0;
  };

  std::map<Name, Caller>::iterator caller_of(const Name& name, engine::Time now);
  void forget_idle(engine::Time now);
  void drop(NodeId node, Slot& slot);
  void leave(Ticket& ticket);

  std::map<Name, Caller> callers_;
  std::map<NodeId, Kept> nodes_;
  size_t kept_bytes_ = 0;
};

}  // namespace penstock::meta_net
