#include "penstock/locks/table.h"

#include <algorithm>
#include <deque>

namespace penstock::locks {

bool Table::is_whole(const Wanted& wanted) {
  return wanted.range == Range{};
}

// Who has something that keeps the owner from having it.
const std::pair<const Owner, Ranges>* Table::blocker_of(const File& file, const Wanted& wanted) {
  for (const auto& one : file.owners) {
    const bool is_other = one.first != wanted.owner && one.first.kind == wanted.owner.kind;
    if (is_other && one.second.in_the_way(wanted.range, wanted.type)) return &one;
  }
  return nullptr;
}

bool Table::has_room(const File& file, const Wanted& wanted) const {
  constexpr size_t kMost = 2;  // that one range adds
  const bool is_far = file.locks + kMost <= limits::kLocksOfFileMax &&
                      locks_of(wanted.owner.agent) + kMost <= limits::kLocksOfAgentMax;
  if (is_far) return true;
  const auto found = file.owners.find(wanted.owner);
  if (found == file.owners.end()) return wanted.type == Type::none;
  Ranges after = found->second;
  after.set(wanted.range, wanted.type, wanted.pid);
  return after.size() <= found->second.size();
}

// False: there is no room.
bool Table::put(File& file, const Wanted& wanted) {
  if (!has_room(file, wanted)) return false;
  Ranges& ranges = file.owners[wanted.owner];
  Agent& agent = agents_[wanted.owner.agent];
  const size_t before = ranges.size();
  ASSERT(file.locks >= before && agent.locks >= before && locks_ >= before);
  ranges.set(wanted.range, wanted.type, wanted.pid);
  const size_t after = ranges.size();
  file.locks += after - before;
  agent.locks += after - before;
  locks_ += after - before;
  if (ranges.empty()) file.owners.erase(wanted.owner);
  return true;
}

Answer Table::set(const Wanted& wanted, RequestId waits) {
  ASSERT(wanted.range.begin < wanted.range.end && wanted.range.end <= kEnd);
  ASSERT(wanted.owner.kind == Kind::range || is_whole(wanted));
  File& file = files_[wanted.inode];
  const auto had = file.owners.find(wanted.owner);
  if (wanted.owner.kind == Kind::whole && had != file.owners.end()) {
    if (had->second.in_the_way(Range{}, Type::write)->type == wanted.type) return Answer::done;
    Wanted none = wanted;
    none.type = Type::none;
    (void)put(file, none);
  }
  Answer answer = Answer::held;
  if (blocker_of(file, wanted) == nullptr) {
    answer = put(file, wanted) ? Answer::done : Answer::full;
  } else if (waits != RequestId()) {
    const bool is_ring = wanted.owner.kind == Kind::range && is_deadlock(wanted);
    const bool is_full = agents_[wanted.owner.agent].waiting.size() >= limits::kWaitingOfAgentMax;
    answer = is_ring ? Answer::deadlock : is_full ? Answer::full : Answer::waits;
  }
  // Before it waits itself: those before it go first.
  wake(file);
  if (answer == Answer::waits) {
    wait(file, wanted, waits);
  } else if (answer == Answer::done && blocked_.contains(wanted.owner)) {
    // Another thread of the owner waits: who waits for what it got now may be part of a ring.
    while (refuse_ring(file)) {
    }
  }
  forget_if_idle(wanted.inode);
  return answer;
}

std::optional<Held> Table::get(const Wanted& wanted) const {
  const auto found = files_.find(wanted.inode);
  if (found == files_.end()) return std::nullopt;
  std::optional<Held> first;
  for (const auto& [owner, ranges] : found->second.owners) {
    if (owner == wanted.owner || owner.kind != wanted.owner.kind) continue;
    const auto lock = ranges.in_the_way(wanted.range, wanted.type);
    if (!lock || (first && first->range.begin <= lock->range.begin)) continue;
    first = Held{owner, lock->range, lock->type, lock->pid};
  }
  return first;
}

void Table::wait(File& file, const Wanted& wanted, RequestId request) {
  file.waiting.push_back({wanted, request});
  const auto at = std::prev(file.waiting.end());
  Agent& agent = agents_[wanted.owner.agent];
  const bool is_new = agent.waiting.emplace(request, std::pair(wanted.inode, at)).second;
  ASSERT(is_new);
  if (wanted.owner.kind == Kind::range) blocked_.emplace(wanted.owner, &at->wanted);
  ++waiting_;
}

void Table::unqueue(File& file, std::list<Waiting>::iterator at) {
  const Owner& owner = at->wanted.owner;
  if (owner.kind == Kind::range) {
    const auto [first, last] = blocked_.equal_range(owner);
    const auto it =
        std::find_if(first, last, [&](const auto& one) { return one.second == &at->wanted; });
    ASSERT(it != last);
    blocked_.erase(it);
  }
  const size_t erased = agents_[owner.agent].waiting.erase(at->request);
  ASSERT(erased == 1 && waiting_ > 0);
  --waiting_;
  file.waiting.erase(at);
}

void Table::finish(File& file, std::list<Waiting>::iterator at, Answer answer) {
  ended_.push_back({at->wanted.owner.agent, at->request, answer});
  unqueue(file, at);
}

// Whether some of those that it would wait for wait for its owner already, by way of others.
bool Table::is_deadlock(const Wanted& wanted) const {
  std::set<Owner> seen;
  std::deque<const Wanted*> waits{&wanted};
  size_t steps = 0;
  while (!waits.empty()) {
    const Wanted& one = *waits.front();
    waits.pop_front();
    const auto file = files_.find(one.inode);
    if (file == files_.end()) continue;
    for (const auto& [owner, ranges] : file->second.owners) {
      if (++steps > limits::kDeadlockStepsMax) return false;
      const bool is_other = owner != one.owner && owner.kind == Kind::range;
      if (!is_other || !ranges.in_the_way(one.range, one.type)) continue;
      if (owner == wanted.owner) return true;
      if (!seen.insert(owner).second) continue;
      const auto [first, last] = blocked_.equal_range(owner);
      for (auto at = first; at != last; ++at) waits.push_back(at->second);
    }
  }
  return false;
}

// The first that waits and need not any more; false: there is none.
bool Table::serve_first(File& file) {
  for (auto at = file.waiting.begin(); at != file.waiting.end(); ++at) {
    if (blocker_of(file, at->wanted) != nullptr) continue;
    finish(file, at, put(file, at->wanted) ? Answer::done : Answer::full);
    return true;
  }
  return false;
}

bool Table::refuse_ring(File& file) {
  for (auto at = file.waiting.begin(); at != file.waiting.end(); ++at) {
    if (at->wanted.owner.kind != Kind::range || !is_deadlock(at->wanted)) continue;
    finish(file, at, Answer::deadlock);
    return true;
  }
  return false;
}

void Table::wake(File& file) {
  bool served = false;
  while (serve_first(file)) served = true;
  while (served && refuse_ring(file)) {
  }
}

bool Table::cancel(AgentId agent, RequestId request) {
  const auto of = agents_.find(agent);
  if (of == agents_.end()) return false;
  const auto found = of->second.waiting.find(request);
  if (found == of->second.waiting.end()) return false;
  const auto [inode, at] = found->second;
  unqueue(files_.at(inode), at);
  forget_if_idle(inode);
  return true;
}

bool Table::is_waiting(AgentId agent, RequestId request) const {
  const auto of = agents_.find(agent);
  return of != agents_.end() && of->second.waiting.contains(request);
}

void Table::release(const Owner& owner, InodeId inode) {
  const auto found = files_.find(inode);
  if (found == files_.end() || !found->second.owners.contains(owner)) return;
  const bool fits = put(found->second, {inode, owner, Range{}, Type::none, 0});
  ASSERT(fits);
  wake(found->second);
  forget_if_idle(inode);
}

void Table::end(AgentId agent) {
  std::vector<InodeId> inodes;
  for (auto& [inode, file] : files_) {
    for (auto at = file.waiting.begin(); at != file.waiting.end();) {
      const auto next = std::next(at);
      if (at->wanted.owner.agent == agent) unqueue(file, at);
      at = next;
    }
    std::vector<Owner> owners;
    for (const auto& [owner, ranges] : file.owners) {
      if (owner.agent == agent) owners.push_back(owner);
    }
    for (const Owner& owner : owners) {
      (void)put(file, {inode, owner, Range{}, Type::none, 0});
    }
    inodes.push_back(inode);
  }
  // The order is that of inodes, not of a table's places.
  std::sort(inodes.begin(), inodes.end());
  for (const InodeId inode : inodes) {
    wake(files_.at(inode));
    forget_if_idle(inode);
  }
  const auto of = agents_.find(agent);
  if (of == agents_.end()) return;
  ASSERT(of->second.locks == 0 && of->second.waiting.empty());
  agents_.erase(of);
}

size_t Table::locks_of(AgentId agent) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() ? 0 : found->second.locks;
}

size_t Table::waiting_of(AgentId agent) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() ? 0 : found->second.waiting.size();
}

void Table::forget_if_idle(InodeId inode) {
  const auto found = files_.find(inode);
  if (found == files_.end()) return;
  if (found->second.owners.empty() && found->second.waiting.empty()) files_.erase(found);
}

}  // namespace penstock::locks
