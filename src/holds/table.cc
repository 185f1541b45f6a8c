#include "penstock/holds/table.h"

#include "entries.h"

#include <algorithm>

namespace penstock::holds {
namespace {

// Lives are the upper part of stamps; a life that says something a million times a second for
// eight years runs out of the lower one.
constexpr unsigned kLifeShift = 48;

}  // namespace

Table::Table(uint16_t life, const std::vector<AgentId>& recorded, engine::Time now,
             engine::Time wait)
    : stamp_(uint64_t{life} << kLifeShift), now_(now), wait_(wait) {
  for (const AgentId agent : recorded) {
    auto session = std::make_unique<Session>(agent, Session::State::recorded);
    session->lease_end = wait;
    session->is_inherited = true;
    sessions_.emplace(agent, std::move(session));
  }
  open_if_claimed(now);
}

Table::~Table() {
  for (const auto& [inode, entry] : entries_) {
    while (!entry->holders.empty()) remove(*entry, *entry->holders.back());
  }
}

Status Table::want(const Want& want, engine::Time now) {
  now_ = now;
  Session* const session = good(want.agent);
  if (session == nullptr) return Code::stale;
  Entry& at = entry(want.inode);
  const Holder* const has = find_holder(want.agent, want.inode);
  const bool is_answered = has != nullptr && has->request == want.request;
  const bool is_enough =
      has != nullptr && has->recall == Stamp{} && want.hold != Hold::none && has->hold >= want.hold;
  if (is_answered || is_enough) {
    give(at, *session, want.request, want.hold);
    return Code::ok;
  }
  // It asks again, as it has not heard yet.
  if (session->waiting.contains({want.inode, want.request})) return Code::ok;
  if (!want.waits && want.hold != Hold::none) {
    give_at_once(at, *session, want);
    forget_if_idle(at);
    return Code::ok;
  }
  if (session->waiting.size() >= limits::kWaitingOfAgentMax) {
    forget_if_idle(at);
    return Code::busy;
  }
  session->waiting.emplace(want.inode, want.request);
  if (want.hold == Hold::none) {
    at.askers.push_back({want.agent, want.request, Stamp(stamp_)});
  } else {
    at.queue.push_back({want.agent, want.request, want.hold});
  }
  touch(at);
  advance_all();
  return Code::ok;
}

void Table::cancel(AgentId agent, InodeId inode, RequestId request, engine::Time now) {
  now_ = now;
  Session* const session = good(agent);
  Entry* const at = find(inode);
  if (session == nullptr || at == nullptr) return;
  session->waiting.erase({inode, request});
  const auto is_it = [&](const auto& one) { return one.agent == agent && one.request == request; };
  std::erase_if(at->queue, [&](const Waiter& one) { return one.part == nullptr && is_it(one); });
  std::erase_if(at->askers, is_it);
  touch(*at);
  advance_all();
}

void Table::back(const Back& back, engine::Time now) {
  now_ = now;
  Entry* const at = find(back.inode);
  if (good(back.agent) == nullptr || at == nullptr || back.recall == Stamp{}) return;
  const auto found = std::find_if(at->holders.begin(), at->holders.end(),
                                  [&](const auto& one) { return one->session->id == back.agent; });
  if (found == at->holders.end()) return;
  Holder& holder = **found;
  if (holder.told == back.recall) {
    const bool has_settled = holder.names.empty();
    holder.told = Stamp{};
    holder.names.clear();
    // Those who asked before it was told have what they asked for; what others ask for may be newer
    // than what it has settled.
    std::erase_if(at->askers, [&](const Asker& asker) {
      if (!has_settled || asker.since >= back.recall) return false;
      sessions_.at(asker.agent)->waiting.erase({at->inode, asker.request});
      actions_.push_back(Given{asker.agent, asker.request, at->inode, Hold::none, next_stamp()});
      return true;
    });
  } else if (holder.recall == back.recall) {
    lower(*at, holder, back);
  } else {
    return;
  }
  touch(*at);
  advance_all();
}

// What is left is a hold of the recall's stamp.
void Table::lower(Entry& entry, Holder& holder, const Back& back) {
  // Against the rule: it stays unanswered, and that ends the session.
  if (back.left > holder.leave) return;
  holder.hold = std::min(holder.hold, back.left);
  holder.in_use = back.in_use;
  holder.grant = holder.recall;
  holder.recall = holder.told = Stamp{};  // what else it was told to do is done with that
  if (holder.hold == Hold::none && !holder.in_use) remove(entry, holder);
}

void Table::give_up(AgentId agent, InodeId inode, Stamp grant, bool in_use, engine::Time now) {
  now_ = now;
  Entry* const at = find(inode);
  const Holder* const has = find_holder(agent, inode);
  // Where a recall is out, its answer says the same.
  if (has == nullptr || has->grant != grant || has->recall != Stamp{}) return;
  Holder& holder = holder_of(*at, *has->session);
  holder.hold = Hold::none;
  holder.in_use = in_use;
  holder.told = Stamp{};
  if (!in_use) remove(*at, holder);
  touch(*at);
  advance_all();
}

void Table::unused(AgentId agent, InodeId inode) {
  const Holder* const has = find_holder(agent, inode);
  if (has == nullptr) return;
  Entry& at = entry(inode);
  Holder& holder = holder_of(at, *has->session);
  holder.in_use = false;
  if (holder.hold != Hold::none) return;
  remove(at, holder);
  forget_if_idle(at);
}

std::vector<Action> Table::take_actions() {
  return std::exchange(actions_, {});
}

std::vector<InodeId> Table::take_unused() {
  return std::exchange(unused_, {});
}

std::vector<Recall> Table::recalls_of(AgentId agent) const {
  std::vector<Recall> all;
  const auto found = sessions_.find(agent);
  if (found == sessions_.end()) return all;
  IntrusiveList<Holder>& holders = found->second->holders;
  for (Holder* one = holders.first(); one != nullptr; one = holders.next(*one)) {
    if (one->told != Stamp{}) {
      all.push_back({agent, one->inode, one->told, one->grant, one->hold, true, one->names});
    }
    if (one->recall != Stamp{}) {
      all.push_back({agent, one->inode, one->recall, one->grant, one->leave, false, {}});
    }
  }
  return all;
}

bool Table::is_in_use(InodeId inode, AgentId beside) const {
  const auto found = entries_.find(inode);
  if (found == entries_.end()) return claiming_;
  // Who has a hold may have opened it since, and says so when it gives that back.
  const auto& holders = found->second->holders;
  return claiming_ || std::any_of(holders.begin(), holders.end(), [beside](const auto& holder) {
           return holder->session->id != beside;
         });
}

bool Table::is_kept_elsewhere(InodeId inode, AgentId maker) const {
  if (claiming_) return true;
  const auto found = entries_.find(inode);
  if (found == entries_.end()) return false;
  const auto& holders = found->second->holders;
  return std::any_of(holders.begin(), holders.end(), [maker](const auto& one) {
    return one->hold != Hold::none && one->session->id != maker;
  });
}

bool Table::is_exclusive(InodeId inode) const {
  return claiming_ || is_known_exclusive(inode);
}

bool Table::is_known_exclusive(InodeId inode) const {
  const auto found = entries_.find(inode);
  if (found == entries_.end()) return false;
  const auto& holders = found->second->holders;
  return std::any_of(holders.begin(), holders.end(),
                     [](const auto& one) { return one->hold == Hold::exclusive; });
}

std::vector<AgentId> Table::inherited() const {
  std::vector<AgentId> all;
  for (const auto& [id, session] : sessions_) {
    if (session->is_inherited) all.push_back(id);
  }
  return all;
}

std::vector<InodeId> Table::exclusives_of(AgentId agent) const {
  std::vector<InodeId> all;
  const auto found = sessions_.find(agent);
  if (found == sessions_.end()) return all;
  IntrusiveList<Holder>& holders = found->second->holders;
  for (Holder* one = holders.first(); one != nullptr; one = holders.next(*one)) {
    if (one->hold == Hold::exclusive) all.push_back(one->inode);
  }
  return all;
}

bool Table::is_good(AgentId agent) const {
  const auto found = sessions_.find(agent);
  return found != sessions_.end() && found->second->state <= Session::State::good;
}

bool Table::has_session(NodeId node) const {
  const auto from = sessions_.lower_bound({node, 0});
  return std::any_of(from, sessions_.end(), [node](const auto& one) {
    return one.first.node == node && one.second->state <= Session::State::good;
  });
}

Stamp Table::grant_of(AgentId agent, InodeId inode) const {
  const Holder* const has = find_holder(agent, inode);
  return has == nullptr ? Stamp{} : has->grant;
}

Hold Table::hold_of(AgentId agent, InodeId inode) const {
  const Holder* const has = find_holder(agent, inode);
  return has == nullptr ? Hold::none : has->hold;
}

}  // namespace penstock::holds
