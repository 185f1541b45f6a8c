#include "accusations.h"

namespace penstock::membership {

void Accusations::add(NodeId node, engine::Time now) {
  const auto [found, is_new] = unreached_.try_emplace(node, Unreached{now, now});
  Unreached& unreached = found->second;
  ASSERT(unreached.first <= unreached.last && unreached.last <= now);
  if (!is_new && now - unreached.last > limits::kAccuseAfter) unreached.first = now;
  unreached.last = now;
}

std::vector<NodeId> Accusations::accused(engine::Time now) {
  std::erase_if(unreached_,
                [now](const auto& one) { return now - one.second.last >= limits::kAccuseAfter; });
  std::vector<NodeId> accused;
  for (const auto& [node, unreached] : unreached_) {
    if (accused.size() == limits::kAccusedPerHeartbeat) break;
    const bool lasts = unreached.last - unreached.first >= limits::kAccuseAfter;
    if (lasts) accused.push_back(node);
  }
  return accused;
}

}  // namespace penstock::membership
