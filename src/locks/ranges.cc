#include "penstock/locks/ranges.h"

#include <iterator>

namespace penstock::locks {

// The first that ends behind the offset.
Ranges::Parts::const_iterator Ranges::first_behind(uint64_t offset) const {
  auto at = at_.upper_bound(offset);
  if (at != at_.begin() && std::prev(at)->second.end > offset) --at;
  return at;
}

// No part lies on both sides of the offset.
void Ranges::split(uint64_t offset) {
  const auto behind = at_.lower_bound(offset);
  if (behind == at_.begin()) return;
  Part& before = std::prev(behind)->second;
  if (before.end <= offset) return;
  at_.emplace_hint(behind, offset, before);
  before.end = offset;
}

// With what touches it on either side.
void Ranges::join(Parts::iterator at) {
  const auto next = std::next(at);
  if (next != at_.end() && next->first == at->second.end && next->second.type == at->second.type) {
    at->second.end = next->second.end;
    at_.erase(next);
  }
  if (at == at_.begin()) return;
  const auto before = std::prev(at);
  if (before->second.end != at->first || before->second.type != at->second.type) return;
  before->second.end = at->second.end;
  before->second.pid = at->second.pid;
  at_.erase(at);
}

void Ranges::set(const Range& range, Type type, uint32_t pid) {
  ASSERT(range.begin < range.end && range.end <= kEnd);
  split(range.begin);
  split(range.end);
  at_.erase(at_.lower_bound(range.begin), at_.lower_bound(range.end));
  if (type == Type::none) return;
  const auto [at, is_new] = at_.emplace(range.begin, Part{range.end, type, pid});
  ASSERT(is_new);
  join(at);
}

std::optional<Ranges::Lock> Ranges::in_the_way(const Range& range, Type type) const {
  if (type == Type::none) return std::nullopt;
  for (auto at = first_behind(range.begin); at != at_.end() && at->first < range.end; ++at) {
    const Part& part = at->second;
    DASSERT(overlap({at->first, part.end}, range));
    if (type == Type::write || part.type == Type::write) {
      return Lock{{at->first, part.end}, part.type, part.pid};
    }
  }
  return std::nullopt;
}

}  // namespace penstock::locks
