// Who has what of one inode, and whose turn it is.
#include "entries.h"

#include <algorithm>

namespace penstock::holds {

Entry& Table::entry(InodeId inode) {
  std::unique_ptr<Entry>& at = entries_[inode];
  if (at == nullptr) at = std::make_unique<Entry>(inode);
  return *at;
}

Entry* Table::find(InodeId inode) {
  const auto found = entries_.find(inode);
  return found == entries_.end() ? nullptr : found->second.get();
}

const Holder* Table::find_holder(AgentId agent, InodeId inode) const {
  const auto found = entries_.find(inode);
  if (found == entries_.end()) return nullptr;
  for (const auto& holder : found->second->holders) {
    if (holder->session->id == agent) return holder.get();
  }
  return nullptr;
}

Holder& Table::holder_of(Entry& entry, Session& session) {
  for (const auto& holder : entry.holders) {
    if (holder->session == &session) return *holder;
  }
  entry.holders.push_back(std::make_unique<Holder>(session, entry.inode));
  session.holders.push_back(*entry.holders.back());
  ++session.held;
  ++holds_;
  return *entry.holders.back();
}

void Table::remove(Entry& entry, Holder& holder) {
  holder.unlink();
  --holder.session->held;
  --holds_;
  const auto is_it = [&](const auto& one) { return one.get() == &holder; };
  entry.holders.erase(std::find_if(entry.holders.begin(), entry.holders.end(), is_it));
  unused_.push_back(entry.inode);
}

void Table::forget_if_idle(Entry& entry) {
  if (entry.is_idle()) entries_.erase(entry.inode);
}

void Table::touch(const Entry& entry) {
  work_.push_back(entry.inode);
}

void Table::advance_all() {
  while (!work_.empty()) {
    const InodeId inode = work_.back();
    work_.pop_back();
    Entry* const at = find(inode);
    if (at == nullptr) continue;
    advance(*at);
    forget_if_idle(*at);
  }
}

// Gives to those who wait, in their order, until one has to wait for others.
void Table::advance(Entry& entry) {
  if (claiming_) return;
  answer_askers(entry);
  while (!entry.queue.empty() && entry.barrier == RequestId{}) {
    if (!is_clear(entry, entry.queue.front())) return;
    const Waiter waiter = entry.queue.front();
    entry.queue.erase(entry.queue.begin());
    if (waiter.part != nullptr) {
      take(entry, waiter);
    } else {
      Session& session = *sessions_.at(waiter.agent);
      session.waiting.erase({entry.inode, waiter.request});
      give(entry, session, waiter.request, waiter.hold);
    }
  }
}

// They wait for nobody but the exclusive holder, whoever else does: a look-up beside a barrier, or
// beside those who wait for the hold, must not stand behind them.
void Table::answer_askers(Entry& entry) {
  if (entry.askers.empty()) return;
  Holder* exclusive = nullptr;
  for (const auto& holder : entry.holders) {
    if (holder->hold == Hold::exclusive) exclusive = holder.get();
  }
  std::erase_if(entry.askers, [&](const Asker& asker) {
    const bool waits = exclusive != nullptr && exclusive->session->id != asker.agent;
    if (waits) return false;
    sessions_.at(asker.agent)->waiting.erase({entry.inode, asker.request});
    actions_.push_back(Given{asker.agent, asker.request, entry.inode, Hold::none, next_stamp()});
    return true;
  });
  const bool is_asked = exclusive != nullptr && exclusive->told != Stamp{};
  if (!entry.askers.empty() && !is_asked) tell(*exclusive, {});
}

// Whether nobody has what does not go beside what is wanted; who has is asked to give it back.
bool Table::is_clear(Entry& entry, Waiter& waiter) {
  const auto others =
      static_cast<size_t>(std::count_if(entry.holders.begin(), entry.holders.end(), [&](auto& one) {
        return one->hold != Hold::none && one->session->id != waiter.agent;
      }));
  bool clear = true;
  for (const auto& holder : entry.holders) clear &= is_clear_of(*holder, waiter, others);
  waiter.has_told = true;
  return clear;
}

bool Table::is_clear_of(Holder& holder, const Waiter& waiter, size_t others) {
  const bool is_barrier = waiter.part != nullptr;
  // An answer that is under way would lower what is given to it now.
  if (holder.session->id == waiter.agent) return is_barrier || holder.recall == Stamp{};
  const Hold most = is_barrier ? Hold::none : most_beside(waiter.hold);
  if (holder.hold <= most) return true;
  if (is_barrier && is_enough_to_tell(holder, waiter, others)) {
    if (!waiter.has_told) tell(holder, waiter.part->names);
    return holder.told == Stamp{};
  }
  if (holder.recall == Stamp{} || holder.leave > most) recall(holder, most);
  return false;
}

// Who has it exclusive keeps that, as it would have to settle for what is none of its bytes. In a
// directory whose names change often nobody keeps them.
bool Table::is_enough_to_tell(const Holder& holder, const Waiter& waiter, size_t others) const {
  if (waiter.part->names.empty() || holder.recall != Stamp{}) return false;
  if (holder.hold == Hold::exclusive) return true;
  const Entry& entry = *entries_.at(holder.inode);
  const bool is_restless = entry.changed_by == waiter.agent.node && entry.changed_by != NodeId{} &&
                           now_ - entry.changed_at < limits::kCalmAfter;
  return !is_restless && others <= limits::kToldMost;
}

void Table::recall(Holder& holder, Hold leave) {
  holder.leave = leave;
  holder.recall = next_stamp();
  if (holder.session->state != Session::State::good) return;  // nobody hears it
  const AgentId agent = holder.session->id;
  recalled_.push_back({now_, agent, holder.inode, holder.recall});
  actions_.push_back(Recall{agent, holder.inode, holder.recall, holder.grant, leave, false, {}});
}

void Table::tell(Holder& holder, const std::vector<std::string>& names) {
  holder.told = next_stamp();
  holder.names = names;
  if (holder.session->state != Session::State::good) return;
  const AgentId agent = holder.session->id;
  recalled_.push_back({now_, agent, holder.inode, holder.told});
  actions_.push_back(
      Recall{agent, holder.inode, holder.told, holder.grant, holder.hold, true, holder.names});
}

// What is at least as much as it asked for stays as it is, with its stamp.
void Table::give(Entry& entry, Session& session, RequestId request, Hold hold) {
  Holder& holder = holder_of(entry, session);
  if (holder.hold < hold && holder.request != request) {
    holder.hold = hold;
    holder.grant = next_stamp();
  }
  if (holder.recall == Stamp{}) holder.request = request;
  actions_.push_back(Given{session.id, request, entry.inode, holder.hold, holder.grant});
  make_room(session, now_);
}

void Table::give_at_once(Entry& entry, Session& session, const Want& want) {
  const bool is_restless = entry.changed_by != NodeId{} && entry.changed_by != want.agent.node &&
                           now_ - entry.changed_at < limits::kCalmAfter;
  const bool is_free = !claiming_ && !is_restless && entry.queue.empty() &&
                       entry.barrier == RequestId{} && entry.askers.empty();
  const Hold most = most_beside(want.hold);
  const bool is_clear =
      is_free && std::all_of(entry.holders.begin(), entry.holders.end(), [&](const auto& one) {
        return one->session->id == want.agent ? one->recall == Stamp{} : one->hold <= most;
      });
  if (is_clear) return give(entry, session, want.request, want.hold);
  // Whoever changed its attributes once has no use for that any more, and keeps what it may.
  for (const auto& holder : entry.holders) {
    const bool is_idle = holder->session->id != want.agent && holder->hold == Hold::exclusive &&
                         holder->recall == Stamp{} && want.hold == Hold::shared;
    if (is_free && is_idle) recall(*holder, Hold::shared);
  }
  actions_.push_back(Given{want.agent, want.request, want.inode, Hold::none, next_stamp()});
}

}  // namespace penstock::holds
