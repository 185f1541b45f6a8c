#include "slots.h"

#include <utility>

namespace penstock::meta_net {

Slots::~Slots() {
  for (auto& [name, caller] : callers_) {
    ASSERT(caller.running == 0 && caller.left.empty());
    for (auto& [number, slot] : caller.slots) drop(name.node, *slot);
  }
  ASSERT(kept_bytes_ == 0);
}

Slots::Taken Slots::take(const Name& name, uint32_t slot, uint64_t sequence, engine::Time now) {
  ASSERT(slot < limits::kSlotsMax && sequence > 0);
  const auto caller = caller_of(name, now);
  if (caller == callers_.end()) return {};
  caller->second.last = now;
  std::unique_ptr<Slot>& held = caller->second.slots[slot];
  if (held == nullptr) held = std::make_unique<Slot>();
  if (sequence < held->sequence) return {.what = Taken::What::old};
  if (sequence == held->sequence) {
    if (held->running) {
      return {.what = Taken::What::wait,
              .waiting = &held->waiting,
              .waiting_count = &held->waiting_count};
    }
    if (held->forgotten) return {.what = Taken::What::unknown};
    if (held->answer != nullptr) return {.what = Taken::What::answer, .answer = held->answer};
    // It was given up before it began.
  } else if (held->running) {
    Slot* const left = held.get();
    caller->second.left.emplace(left, std::move(held));
    held = std::make_unique<Slot>();
  }
  drop(name.node, *held);
  held->sequence = sequence;
  held->running = true;
  held->forgotten = false;
  ++caller->second.running;
  Taken taken{.what = Taken::What::run};
  taken.ticket.caller_ = caller;
  taken.ticket.slot_ = held.get();
  taken.ticket.sequence_ = sequence;
  return taken;
}

void Slots::end(Ticket ticket, AnswerBytes answer, engine::Time now) {
  ASSERT(ticket && answer != nullptr);
  Slot& slot = *ticket.slot_;
  ASSERT(slot.running && slot.sequence == ticket.sequence_);
  ticket.caller_->second.last = now;
  const bool is_last = !ticket.caller_->second.left.contains(&slot);
  if (is_last) {
    Kept& kept = nodes_.at(ticket.caller_->first.node);
    const size_t bytes = answer->size();
    slot.forgotten = kept_bytes_ + bytes > limits::kKeptBytesMax ||
                     kept.bytes + bytes > limits::kKeptBytesPerNode;
    if (!slot.forgotten) {
      slot.answer = std::move(answer);
      kept.bytes += bytes;
      kept_bytes_ += bytes;
    }
  }
  leave(ticket);
}

void Slots::give_up(Ticket ticket) {
  ASSERT(ticket && ticket.slot_->running && ticket.slot_->answer == nullptr);
  leave(ticket);
}

void Slots::leave(Ticket& ticket) {
  Caller& caller = ticket.caller_->second;
  ASSERT(caller.running > 0 && ticket.slot_->waiting.empty());
  --caller.running;
  ticket.slot_->running = false;
  caller.left.erase(ticket.slot_);
}

void Slots::take_waiting(const Ticket& ticket, IntrusiveList<ListNode>& to) {
  to.take_all(ticket.slot_->waiting);
  ticket.slot_->waiting_count = 0;
}

std::map<Slots::Name, Slots::Caller>::iterator Slots::caller_of(const Name& name,
                                                                engine::Time now) {
  auto found = callers_.find(name);
  if (found != callers_.end()) return found;
  const auto is_full = [&] {
    const auto node = nodes_.find(name.node);
    return callers_.size() >= limits::kCallersMax ||
           (node != nodes_.end() && node->second.callers >= limits::kCallersPerNode);
  };
  if (is_full()) forget_idle(now);
  if (is_full()) return callers_.end();
  ++nodes_[name.node].callers;
  return callers_.try_emplace(name).first;
}

void Slots::forget_idle(engine::Time now) {
  for (auto at = callers_.begin(); at != callers_.end();) {
    auto& [name, caller] = *at;
    if (caller.running > 0 || now - caller.last < limits::kCallerIdle) {
      ++at;
      continue;
    }
    for (auto& [number, slot] : caller.slots) drop(name.node, *slot);
    const auto node = nodes_.find(name.node);
    ASSERT(node != nodes_.end() && node->second.callers > 0);
    if (--node->second.callers == 0) {
      ASSERT(node->second.bytes == 0);
      nodes_.erase(node);
    }
    at = callers_.erase(at);
  }
}

void Slots::drop(NodeId node, Slot& slot) {
  if (slot.answer == nullptr) return;
  Kept& kept = nodes_.at(node);
  const size_t bytes = slot.answer->size();
  ASSERT(kept.bytes >= bytes && kept_bytes_ >= bytes);
  kept.bytes -= bytes;
  kept_bytes_ -= bytes;
  slot.answer = nullptr;
}

}  // namespace penstock::meta_net
