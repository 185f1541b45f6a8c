// Operations that want to be alone with some inodes.
#include "entries.h"

#include <algorithm>
#include <numeric>

namespace penstock::holds {

void Table::barrier(BarrierWant want, engine::Time now) {
  now_ = now;
  ASSERT(!want.parts.empty() && want.parts.size() <= limits::kBarrierPartsMax);
  const RequestId request = want.request;
  auto [at, added] = barriers_.emplace(request, std::make_unique<Barrier>(std::move(want)));
  ASSERT(added);
  Barrier& barrier = *at->second;
  const std::vector<Part>& parts = barrier.want.parts;
  barrier.order.resize(parts.size());
  std::iota(barrier.order.begin(), barrier.order.end(), size_t{0});
  // All take them in one order, so that none waits in a ring.
  std::sort(barrier.order.begin(), barrier.order.end(),
            [&](size_t a, size_t b) { return parts[a].inode < parts[b].inode; });
  for (size_t i = 1; i < parts.size(); ++i) {
    ASSERT(parts[barrier.order[i - 1]].inode < parts[barrier.order[i]].inode);
  }
  barrier.stamps.resize(parts.size());
  queue_part(barrier);
  advance_all();
}

void Table::queue_part(Barrier& barrier) {
  const Part& part = barrier.want.parts[barrier.order[barrier.taken]];
  Entry& at = entry(part.inode);
  at.queue.push_back({barrier.want.maker, barrier.want.request, Hold::none, &part});
  touch(at);
}

Stamp Table::reading(InodeId inode) {
  const Entry* const at = find(inode);
  if (claiming_) return {};
  if (at == nullptr) return next_stamp();
  // Who holds it may have been told already of what is not changed yet.
  const bool changes = at->barrier != RequestId{} ||
                       std::any_of(at->queue.begin(), at->queue.end(),
                                   [](const Waiter& one) { return one.part != nullptr; });
  return changes ? Stamp{} : next_stamp();
}

// One part is the barrier's own: then the next, or all are.
void Table::take(Entry& entry, const Waiter& waiter) {
  Barrier& barrier = *barriers_.at(waiter.request);
  entry.barrier = waiter.request;
  barrier.stamps[barrier.order[barrier.taken]] = next_stamp();
  ++barrier.taken;
  if (barrier.taken < barrier.order.size()) return queue_part(barrier);
  actions_.push_back(Ready{waiter.request, barrier.stamps});
}

void Table::over(RequestId request, bool changed, engine::Time now) {
  now_ = now;
  const auto found = barriers_.find(request);
  ASSERT(found != barriers_.end());
  const Barrier& barrier = *found->second;
  ASSERT(barrier.taken == barrier.order.size());
  for (const Part& part : barrier.want.parts) {
    Entry& at = entry(part.inode);
    ASSERT(at.barrier == request);
    at.barrier = RequestId{};
    if (changed && !part.names.empty()) {
      at.changed_by = barrier.want.maker.node;
      at.changed_at = now;
      changed_.emplace_back(now, part.inode);
    }
    touch(at);
  }
  barriers_.erase(found);
  advance_all();
}

}  // namespace penstock::holds
