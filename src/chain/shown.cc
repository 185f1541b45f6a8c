#include "shown.h"

namespace penstock::chain {

namespace {

constexpr uint8_t kReads = wire::kMayRead | wire::kMayWrite;

}  // namespace

// Who may write reads what is around it.
bool Shown::allows(const Entry& entry, const Use& use) {
  const bool has_rights = use.rights == wire::kMayRead ? (entry.rights & kReads) != 0
                                                       : (entry.rights & use.rights) == use.rights;
  return has_rights && use.chain.value >= entry.chain_first && use.chain.value <= entry.chain_last;
}

const Shown::Entry* Shown::find(const Key& key) {
  if (const auto found = newer_.find(key); found != newer_.end()) return &found->second;
  const auto found = older_.find(key);
  if (found == older_.end()) return nullptr;
  const Entry entry = found->second;
  older_.erase(found);
  add(key, entry);
  return &newer_.at(key);
}

void Shown::add(const Key& key, const Entry& entry) {
  if (newer_.size() >= limits::kShownMax / 2) {
    older_ = std::move(newer_);
    newer_.clear();
  }
  newer_[key] = entry;
}

Status Shown::may(const Use& use, const Fence& fence) {
  const auto session = wire::AgentSession::of_word(use.session);
  // What it has shown counts in its own calls only.
  if (use.session == 0 || session.node != use.peer) return Code::bad_handle;
  if (fence.has(session)) return Code::stale;
  const auto whole = whole_.find(use.session);
  if (whole != whole_.end() && allows(whole->second, use)) return Code::ok;
  const Entry* const entry = find({use.session, use.inode.value});
  return entry != nullptr && allows(*entry, use) ? Code::ok : Code::bad_handle;
}

bool Shown::is_too_fast(NodeId peer, engine::Time now) {
  Pace& pace = paces_[peer];
  if (now - pace.since >= std::chrono::seconds(1)) pace = {now, 0};
  return ++pace.count > limits::kShownPerSecond;
}

Status Shown::show(NodeId peer, const wire::Capability& capability, const Fence& fence,
                   CapabilityJudge& judge, engine::Time now) {
  ASSERT(wire::is_good(capability));
  const auto session = wire::AgentSession::of_word(capability.session);
  if (session.node != peer) return Code::access_denied;
  if (fence.has(session)) return Code::stale;
  const auto restricted = restricted_.find(peer);
  if (restricted != restricted_.end() && capability.judged < restricted->second) {
    return Code::bad_handle;
  }
  if (is_too_fast(peer, now)) return Code::busy;
  switch (judge.judge(capability)) {
    case CapabilityJudge::Verdict::good:
      break;
    case CapabilityJudge::Verdict::forged:
      return Code::access_denied;
    case CapabilityJudge::Verdict::unknown_key:
      return Code::bad_handle;
  }
  const Entry entry{capability.rights, capability.chain_first, capability.chain_last,
                    capability.judged};
  if (!capability.is_of_all()) {
    add({capability.session, capability.inode_first}, entry);
    return Code::ok;
  }
  // A node has one session at a time; of earlier ones something may still be on its way.
  if (whole_.size() >= limits::kShownSessionsMax) whole_.clear();
  whole_[capability.session] = entry;
  return Code::ok;
}

template <class Goes>
void Shown::erase_if(const Goes& goes) {
  std::erase_if(whole_, [&](const auto& one) { return goes(one.first, one.second); });
  for (Entries* const entries : {&newer_, &older_}) {
    std::erase_if(*entries, [&](const auto& one) { return goes(one.first.session, one.second); });
  }
}

void Shown::fence(const wire::AgentSession& lowest) {
  erase_if([&](uint64_t word, const Entry&) {
    const auto session = wire::AgentSession::of_word(word);
    return session.node == lowest.node && session.number < lowest.number;
  });
}

void Shown::restrict(const Restricted& restricted) {
  uint64_t& since = restricted_[restricted.node];
  if (restricted.since <= since) return;
  since = restricted.since;
  erase_if([&](uint64_t word, const Entry& entry) {
    return wire::AgentSession::of_word(word).node == restricted.node &&
           entry.judged < restricted.since;
  });
}

}  // namespace penstock::chain
