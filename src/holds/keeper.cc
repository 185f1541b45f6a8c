#include "penstock/holds/keeper.h"

#include <algorithm>

namespace penstock::holds {

void Keeper::begun(AgentId agent, bool good, engine::Time sent, uint16_t life, uint64_t next) {
  if (agent != id_ || state_ != State::beginning) return;
  if (!good) {
    // It was ended before it was heard of, or the node has had others.
    id_.session = std::max(id_.session + 1, next);
    actions_.push_back(Begin{id_});
    return;
  }
  state_ = State::ready;
  life_ = life;
  lease_end_ = sent + limits::kAgentLease;
  for (auto& [inode, kept] : all_) resume(inode, kept);
}

void Keeper::renewed(AgentId agent, bool good, engine::Time sent, uint16_t life) {
  if (agent != id_ || !has_begun() || life < life_) return;
  if (!good) return lose();
  lease_end_ = std::max(lease_end_, sent + limits::kAgentLease);
  if (life == life_) return;
  // It knows of nothing that was given before, and is told of what is exclusive only.
  life_ = life;
  state_ = State::renewing;
  void_all(false);
  actions_.push_back(DropAll{});
}

void Keeper::claimed(AgentId agent, uint16_t life,
                     const std::vector<std::pair<InodeId, Stamp>>& grants) {
  if (agent != id_ || life != life_ || state_ != State::claiming) return;
  state_ = State::ready;
  for (const auto& [inode, grant] : grants) {
    const auto found = all_.find(inode);
    if (found != all_.end() && found->second.hold == Hold::exclusive) found->second.grant = grant;
  }
  for (auto& [inode, kept] : all_) {
    drop_if_due(inode, kept);
    resume(inode, kept);
  }
}

// Nothing is its own any more, as meta has said: what it has may be another's.
void Keeper::lose() {
  void_all(true);
  state_ = State::lost;
  actions_.push_back(DropAll{.is_lost = true});
}

// Operations that run end without a hold; those that wait go on waiting.
void Keeper::void_all(bool exclusive_too) {
  stays_.clear();
  for (auto& [inode, kept] : all_) {
    kept.recall = kept.recalled = kept.told = Stamp{};
    kept.asked = RequestId{};
    kept.closed = kept.dropping = kept.stays = false;
    if (kept.hold == Hold::exclusive && !exclusive_too) continue;
    kept.hold = Hold::none;
    kept.running = 0;
    kept.generation = ++generations_;
  }
}

void Keeper::all_dropped() {
  if (state_ == State::lost) {
    ++id_.session;
    state_ = State::beginning;
    actions_.push_back(Begin{id_});
  } else if (state_ == State::renewing) {
    state_ = State::claiming;
    Claim claim{id_, {}};
    for (const auto& [inode, kept] : all_) {
      if (kept.hold == Hold::exclusive || kept.uses > 0) claim.has.emplace_back(inode, kept.hold);
    }
    actions_.push_back(std::move(claim));
  }
}

bool Keeper::enter(InodeId inode, Hold hold, engine::Time now) {
  const auto found = all_.find(inode);
  if (found == all_.end() || !is_ready(now)) return false;
  Kept& kept = found->second;
  if (kept.closed || kept.hold < hold) return false;
  now_ = kept.entered = now;
  kept.was_entered = true;
  ++kept.running;
  return true;
}

// Generations are no inode's own, so that an operation is never taken for one of another life of
// an inode that was forgotten in between.
Keeper::Kept& Keeper::at(InodeId inode) {
  const auto [found, added] = all_.try_emplace(inode);
  if (added) found->second.generation = ++generations_;
  return found->second;
}

void Keeper::forget_if_idle(InodeId inode) {
  const auto found = all_.find(inode);
  if (found == all_.end()) return;
  const Kept& kept = found->second;
  const bool is_idle = kept.hold == Hold::none && kept.parked == Hold::none && !kept.closed &&
                       kept.running == 0 && kept.uses == 0 && kept.asked == RequestId{} &&
                       kept.recall == Stamp{};
  if (is_idle) all_.erase(found);
}

void Keeper::wait(InodeId inode, Hold hold) {
  Kept& kept = at(inode);
  kept.parked = std::max(kept.parked, hold);
  ask(inode, kept);
}

void Keeper::want(InodeId inode, engine::Time now) {
  if (!is_ready(now)) return;
  Kept& kept = at(inode);
  if (kept.closed || kept.asked != RequestId{} || kept.hold != Hold::none) return;
  kept.asked = RequestId(++requests_);
  actions_.push_back(Ask{{id_, kept.asked, inode, Hold::shared, false}});
}

void Keeper::ask(InodeId inode, Kept& kept) {
  const bool may = state_ == State::ready && !kept.closed && kept.asked == RequestId{};
  if (!may || kept.parked == Hold::none) return;
  kept.asked = RequestId(++requests_);
  actions_.push_back(Ask{{id_, kept.asked, inode, kept.parked}});
}

// Who waits tries again; who waits then says so again.
void Keeper::resume(InodeId inode, Kept& kept) {
  if (kept.parked == Hold::none) return;
  kept.parked = Hold::none;
  actions_.push_back(Resume{inode});
}

void Keeper::resumed(InodeId inode) {
  const auto found = all_.find(inode);
  if (found == all_.end()) return;
  drop_if_due(inode, found->second);
  ask(inode, found->second);
  forget_if_idle(inode);
}

// What was recalled before it came: those who waited for it have had their turn. Where no answer is
// out that may bring what the recall names, it never comes, and what the agent has went into it.
void Keeper::drop_if_due(InodeId inode, Kept& kept) {
  const bool is_due = kept.recall != Stamp{} && !kept.closed && state_ == State::ready;
  const bool is_known = kept.recalled <= kept.grant && kept.hold != Hold::none;
  if (!is_due || (!is_known && kept.asked != RequestId{})) return;
  if (!is_known) kept.leave = Hold::none;
  begin_drop(inode, kept);
}

uint64_t Keeper::generation(InodeId inode) const {
  const auto found = all_.find(inode);
  return found == all_.end() ? 0 : found->second.generation;
}

void Keeper::leave(InodeId inode, uint64_t generation) {
  const auto found = all_.find(inode);
  if (found == all_.end() || found->second.generation != generation) return;
  ASSERT(found->second.running > 0);
  --found->second.running;
  drop_if_done(inode, found->second);
}

bool Keeper::is_good(InodeId inode, AgentId session, uint64_t generation, engine::Time now) const {
  return session == id_ && is_leased(now) && this->generation(inode) == generation;
}

bool Keeper::may_keep(InodeId inode, Stamp stamp, engine::Time now) const {
  const auto found = all_.find(inode);
  if (found == all_.end() || !is_ready(now) || life_of(stamp) != life_) return false;
  const Kept& kept = found->second;
  // What was read before the hold may have been changed before it, and told to who had one then.
  return kept.hold >= Hold::shared && !kept.closed && stamp > kept.grant && stamp > kept.heard;
}

void Keeper::use(InodeId inode) {
  ++at(inode).uses;
}

void Keeper::unuse(InodeId inode) {
  Kept& kept = at(inode);
  ASSERT(kept.uses > 0);
  --kept.uses;
  forget_if_idle(inode);
}

void Keeper::given(const Given& given, engine::Time now) {
  now_ = now;
  const auto found = all_.find(given.inode);
  const bool is_mine = given.agent == id_ && life_of(given.stamp) == life_ && found != all_.end();
  if (!is_mine || state_ != State::ready || given.request == RequestId{}) return;
  Kept& kept = found->second;
  if (given.request != kept.asked) return;
  kept.asked = RequestId{};
  // What was recalled since is nothing any more.
  if (given.hold != Hold::none && given.stamp >= kept.answered) {
    if (kept.hold != given.hold) kept.since = now;
    kept.hold = given.hold;
    kept.grant = given.stamp;
    // A recall from before that grant was answered; it came once more, when that was forgotten.
    const bool is_of_before = kept.recall < kept.grant && !kept.closed && !kept.stays;
    if (is_of_before) kept.recall = kept.recalled = Stamp{};
  }
  // Also where nobody waits any more: it may have been recalled by now.
  kept.parked = Hold::none;
  actions_.push_back(Resume{given.inode});
}

bool Keeper::refused(InodeId inode, RequestId request) {
  const auto found = all_.find(inode);
  const bool is_mine = found != all_.end() && state_ == State::ready && request != RequestId{} &&
                       found->second.asked == request;
  if (!is_mine) return false;
  found->second.asked = RequestId{};
  found->second.parked = Hold::none;
  // What was recalled meanwhile does not come any more.
  drop_if_due(inode, found->second);
  forget_if_idle(inode);
  return true;
}

void Keeper::recalled(const Recall& recall, engine::Time now) {
  now_ = now;
  if (recall.agent != id_ || life_of(recall.recall) != life_ || !has_begun()) return;
  Kept& kept = at(recall.inode);
  // The answer was lost, perhaps.
  if (recall.recall <= (recall.keeps ? kept.heard : kept.answered)) {
    return answer(recall.inode, kept, recall.recall, recall.leave);
  }
  if (recall.keeps) {
    kept.told = recall.recall;
    actions_.push_back(Drop{recall.inode, recall.recall, kept.hold, recall.names, true});
    return;
  }
  // A grant of before: the answer to an earlier recall, which lowered that, is still on its way.
  const bool is_known = recall.grant <= kept.grant && kept.hold != Hold::none;
  if (recall.recall <= kept.grant || recall.recall == kept.recall) return;
  kept.recall = recall.recall;
  kept.recalled = recall.grant;
  kept.leave = recall.leave;
  // Another one, of less, while the one before is being done: again, then.
  kept.dropping = false;
  if (is_known || kept.closed) return begin_drop(recall.inode, kept);
  drop_if_due(recall.inode, kept);
}

void Keeper::begin_drop(InodeId inode, Kept& kept) {
  if (kept.stays) return;
  if (!is_worth_staying(kept)) return close(inode, kept);
  if (kept.stays_left_out > 0) {
    --kept.stays_left_out;
    return close(inode, kept);
  }
  kept.stays = true;
  kept.was_entered = false;
  stays_.push_back(inode);
}

bool Keeper::is_worth_staying(const Kept& kept) const {
  const bool is_used = kept.running > 0 || now_ - kept.entered < limits::kStayUnused;
  const bool is_new = now_ - kept.since < limits::kStayMost;
  return !kept.closed && kept.hold == Hold::exclusive && is_used && is_new;
}

void Keeper::look_at_stays(engine::Time now) {
  now_ = now;
  for (const InodeId inode : std::exchange(stays_, {})) {
    const auto found = all_.find(inode);
    ASSERT(found != all_.end() && found->second.stays);
    Kept& kept = found->second;
    if (kept.running > 0) kept.entered = now;
    if (now - kept.since < limits::kStayMost && now - kept.entered < limits::kStayUnused) {
      stays_.push_back(inode);
      continue;
    }
    kept.stays = false;
    kept.stays_left_out = kept.was_entered ? 0 : limits::kStaysLeftOut;
    close(inode, kept);
  }
}

void Keeper::close(InodeId inode, Kept& kept) {
  kept.closed = true;
  drop_if_done(inode, kept);
}

void Keeper::drop_if_done(InodeId inode, Kept& kept) {
  if (!kept.closed || kept.running > 0 || kept.dropping) return;
  kept.dropping = true;
  actions_.push_back(Drop{inode, kept.recall, kept.leave, {}, false});
}

void Keeper::dropped(InodeId inode, Stamp recall) {
  const auto found = all_.find(inode);
  if (found == all_.end() || !has_begun() || life_of(recall) != life_) return;
  Kept& kept = found->second;
  if (recall == kept.told) {
    kept.told = Stamp{};
    kept.heard = recall;
    answer(inode, kept, recall, kept.hold);
    return forget_if_idle(inode);
  }
  if (recall != kept.recall || !kept.dropping) return;
  kept.closed = kept.dropping = false;
  kept.recall = kept.recalled = Stamp{};
  kept.hold = std::min(kept.hold, kept.leave);
  kept.grant = recall;
  kept.answered = recall;
  answer(inode, kept, recall, kept.hold);
  kept.parked = Hold::none;
  actions_.push_back(Resume{inode});
}

void Keeper::answer(InodeId inode, const Kept& kept, Stamp recall, Hold left) {
  actions_.push_back(Answer{{id_, inode, recall, left, kept.uses > 0}});
}

bool Keeper::is_asking(InodeId inode, RequestId request) const {
  const auto found = all_.find(inode);
  return found != all_.end() && found->second.asked == request;
}

Hold Keeper::hold_of(InodeId inode) const {
  const auto found = all_.find(inode);
  return found == all_.end() ? Hold::none : found->second.hold;
}

bool Keeper::is_used(InodeId inode) const {
  const auto found = all_.find(inode);
  return found != all_.end() && found->second.uses > 0;
}

uint64_t Keeper::running() const {
  uint64_t running = 0;
  for (const auto& [inode, kept] : all_) running += kept.running;
  return running;
}

bool Keeper::is_idle() const {
  return state_ == State::ready && std::all_of(all_.begin(), all_.end(), [](const auto& one) {
           return one.second.running == 0 && one.second.parked == Hold::none && !one.second.closed;
         });
}

}  // namespace penstock::holds
