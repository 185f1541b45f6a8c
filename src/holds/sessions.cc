// Agents: their leases, and what becomes of what they had.
#include "entries.h"

#include <algorithm>

namespace penstock::holds {

Session* Table::good(AgentId agent) {
  const auto found = sessions_.find(agent);
  if (found == sessions_.end() || found->second->state != Session::State::good) return nullptr;
  return found->second.get();
}

void Table::begin(AgentId agent, engine::Time now) {
  now_ = now;
  // A word that was late: its node has begun a later one since.
  const bool is_late = std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& one) {
    return one.first.node == agent.node && one.first.session > agent.session;
  });
  if (is_late) return;
  // Its node has one agent, which began this one after it had dropped what it had.
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    Session& other = *(at++)->second;
    if (other.id.node != agent.node || other.id == agent) continue;
    other.has_dropped = true;
    if (other.state <= Session::State::good) end(other);
    if (other.state == Session::State::fenced) drop(other);
  }
  std::unique_ptr<Session>& session = sessions_[agent];
  if (session == nullptr) session = std::make_unique<Session>(agent, Session::State::good);
  // Of one that has ended nothing is waited for any longer than it was.
  if (session->state > Session::State::good) return;
  session->lease_end = now + limits::kAgentLease + limits::kLeaseGuard;
  open_if_claimed(now);
  advance_all();
}

bool Table::renew(AgentId agent, engine::Time now) {
  now_ = now;
  const auto found = sessions_.find(agent);
  if (found == sessions_.end() || found->second->state > Session::State::good) return false;
  found->second->lease_end = now + limits::kAgentLease + limits::kLeaseGuard;
  return true;
}

void Table::expel(AgentId agent, engine::Time now) {
  now_ = now;
  const auto found = sessions_.find(agent);
  if (found == sessions_.end() || found->second->state > Session::State::good) return;
  end(*found->second);
  advance_all();
}

Result<Stamp> Table::claim(AgentId agent, InodeId inode, Hold hold, bool in_use, bool is_trusted) {
  const auto found = sessions_.find(agent);
  const bool may =
      claiming_ && found != sessions_.end() && found->second->state == Session::State::recorded;
  if (!may) return Code::stale;
  Entry& at = entry(inode);
  found->second->is_trusted = is_trusted;
  if (is_trusted) disown_untrusted(at, agent, hold);
  for (const auto& holder : at.holders) {
    if (holder->session->id == agent || go_beside(hold, holder->hold)) continue;
    // One of the two is wrong, or lies.
    end(*found->second);
    return Code::conflict;
  }
  Holder& holder = holder_of(at, *found->second);
  holder.hold = hold;
  holder.in_use = in_use;
  holder.grant = next_stamp();
  return holder.grant;
}

// Of what stands against a claim they have nothing but, perhaps, an open file: so nobody settles
// for them what is another's.
void Table::disown_untrusted(Entry& entry, AgentId claims, Hold hold) {
  for (const auto& holder : entry.holders) {
    Session& session = *holder->session;
    if (session.id == claims || session.is_trusted || go_beside(hold, holder->hold)) continue;
    holder->hold = Hold::none;
    holder->in_use = true;
    if (session.state <= Session::State::good) end(session);
  }
}

void Table::claimed(AgentId agent, engine::Time now) {
  now_ = now;
  const auto found = sessions_.find(agent);
  if (found == sessions_.end() || found->second->state != Session::State::recorded) return;
  found->second->state = Session::State::good;
  found->second->is_inherited = false;
  found->second->lease_end = now + limits::kAgentLease + limits::kLeaseGuard;
  open_if_claimed(now);
}

void Table::not_heard(engine::Time now) {
  now_ = now;
  const engine::Time until = now + limits::kAgentLease + limits::kLeaseGuard;
  wait_ = std::max(wait_, until);
  for (const auto& [id, session] : sessions_) {
    if (session->state <= Session::State::good) {
      session->lease_end = std::max(session->lease_end, until);
    }
  }
  for (Recalled& recalled : recalled_) recalled.since = now;
}

// Nobody knows what those had who have not claimed: they are waited for until they are dropped.
void Table::open_if_claimed(engine::Time now) {
  if (!claiming_) return;
  bool all = true;
  for (const auto& [id, session] : sessions_) {
    if (session->state == Session::State::recorded && now >= wait_) end(*session);
    all &= !session->is_inherited;
  }
  if (!all) return;
  claiming_ = false;
  for (const auto& [inode, entry] : entries_) touch(*entry);
  advance_all();
}

// It gets nothing more. What it has stays its own until it is fenced and its lease is over.
void Table::end(Session& session) {
  session.state = Session::State::ending;
  drop_waiting(session);
  actions_.push_back(End{session.id});
}

void Table::fenced(AgentId agent, engine::Time now) {
  now_ = now;
  const auto found = sessions_.find(agent);
  if (found == sessions_.end() || found->second->state != Session::State::ending) return;
  Session& session = *found->second;
  session.state = Session::State::fenced;
  if (session.has_dropped || now >= session.lease_end) drop(session);
  open_if_claimed(now);
  advance_all();
}

void Table::dropped(AgentId agent, engine::Time now) {
  now_ = now;
  const auto found = sessions_.find(agent);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  session.has_dropped = true;
  if (session.state <= Session::State::good) end(session);
  if (session.state == Session::State::fenced) drop(session);
  open_if_claimed(now);
  advance_all();
}

void Table::drop(Session& session) {
  while (Holder* const holder = session.holders.first()) {
    Entry& at = entry(holder->inode);
    remove(at, *holder);
    touch(at);
  }
  actions_.push_back(Gone{session.id});
  sessions_.erase(session.id);
}

void Table::drop_waiting(Session& session) {
  for (const auto& [inode, request] : session.waiting) {
    Entry& at = entry(inode);
    const auto is_its = [&](const auto& one) { return one.agent == session.id; };
    std::erase_if(at.queue, [&](const Waiter& one) { return one.part == nullptr && is_its(one); });
    std::erase_if(at.askers, is_its);
    touch(at);
  }
  session.waiting.clear();
}

void Table::tick(engine::Time now) {
  now_ = now;
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    Session& session = *(at++)->second;
    if (now < session.lease_end) continue;
    if (session.state == Session::State::good) end(session);
    if (session.state == Session::State::fenced) drop(session);
  }
  open_if_claimed(now);
  while (!recalled_.empty() && now - recalled_.front().since >= limits::kAnswerMost) {
    const Recalled first = recalled_.front();
    recalled_.pop_front();
    const Holder* const has = find_holder(first.agent, first.inode);
    const bool waits = has != nullptr && (has->recall == first.recall || has->told == first.recall);
    if (waits && has->session->state == Session::State::good) end(*has->session);
  }
  while (!changed_.empty() && now - changed_.front().first >= limits::kCalmAfter) {
    Entry* const at = find(changed_.front().second);
    changed_.pop_front();
    if (at == nullptr || now - at->changed_at < limits::kCalmAfter) continue;
    at->changed_by = NodeId{};
    forget_if_idle(*at);
  }
  advance_all();
}

// Of what it has had longest.
void Table::make_room(Session& session, engine::Time now) {
  now_ = now;
  if (session.held <= limits::kHoldsOfAgentMax) return;
  constexpr uint32_t kLooks = 8;
  Holder* one = session.holders.first();
  for (uint32_t looks = 0; one != nullptr && looks < kLooks; ++looks) {
    if (one->hold != Hold::none && one->recall == Stamp{}) return recall(*one, Hold::none);
    one = session.holders.next(*one);
  }
}

}  // namespace penstock::holds
