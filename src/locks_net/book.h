// What an agent has locked, as the service has told it.
#pragma once

#include "messages.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock::locks_net {

// Not thread safe.
class Book {
 public:
  // An owner in a file.
  struct Place {
    InodeId inode;
    Owner owner;
    friend constexpr auto operator<=>(const Place&, const Place&) = default;
  };

  // It was done. `open`: through which it was asked; null: that is closed.
  void note(const Wanted& wanted, locks::Open* open) {
    const Place place{wanted.inode, wanted.owner};
    locks::Ranges& ranges = places_[place];
    ranges.set(wanted.range, wanted.type, wanted.pid);
    if (ranges.empty()) {
      places_.erase(place);
    } else if (open != nullptr && wanted.type != Type::none) {
      opens_[open].insert(place);
    }
  }
  // It was asked, and perhaps done: what it leaves in any case is what is ours.
  void weaken(const Wanted& wanted) {
    const auto found = places_.find({wanted.inode, wanted.owner});
    if (found == places_.end()) return;
    locks::Ranges& ranges = found->second;
    // A lock of flock is given up before it is tried as another type.
    const bool gives_up = wanted.type == Type::none || wanted.owner.kind == Kind::whole;
    std::vector<locks::Ranges::Lock> locks;
    ranges.for_each([&](const locks::Ranges::Lock& lock) { locks.push_back(lock); });
    for (const locks::Ranges::Lock& lock : locks) {
      if (lock.type == Type::read && !gives_up) continue;
      if (wanted.type == Type::write && !gives_up) continue;
      if (wanted.type == lock.type) continue;
      const Range part{std::max(lock.range.begin, wanted.range.begin),
                       std::min(lock.range.end, wanted.range.end)};
      if (part.begin < part.end) ranges.set(part, gives_up ? Type::none : Type::read, lock.pid);
    }
    if (ranges.empty()) places_.erase(found);
  }
  void forget(const Place& place) { places_.erase(place); }
  bool has(const Place& place) const { return places_.contains(place); }
  // Where something was locked through it that may still be so; it is not known any more.
  std::set<Place> take(locks::Open& open) {
    const auto found = opens_.find(&open);
    if (found == opens_.end()) return {};
    std::set<Place> places = std::move(found->second);
    opens_.erase(found);
    std::erase_if(places, [&](const Place& place) { return !has(place); });
    return places;
  }
  // One place is not ours any more, whatever was believed.
  void lose(const Place& place) {
    for (auto& [open, places] : opens_) {
      if (places.contains(place)) open->lose();
    }
    forget(place);
  }
  // It is ours, and may be less than was believed.
  void doubt(const Place& place) {
    for (auto& [open, places] : opens_) {
      if (places.contains(place)) open->lose();
    }
  }
  // Nothing is.
  void lose_all() {
    for (auto& [open, places] : opens_) {
      const bool has_some =
          std::any_of(places.begin(), places.end(), [&](const Place& place) { return has(place); });
      if (has_some) open->lose();
    }
    opens_.clear();
    places_.clear();
  }
  std::vector<Wanted> all() const {
    std::vector<Wanted> out;
    for (const auto& [place, ranges] : places_) {
      ranges.for_each([&](const locks::Ranges::Lock& lock) {
        out.push_back({place.inode, place.owner, lock.range, lock.type, lock.pid});
      });
    }
    return out;
  }
  size_t places() const { return places_.size(); }
  size_t opens() const { return opens_.size(); }

 private:
  std::map<Place, locks::Ranges> places_;
  std::map<locks::Open*, std::set<Place>> opens_;
};

}  // namespace penstock::locks_net
