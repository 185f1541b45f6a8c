// What one owner has locked of one file.
#pragma once

#include <map>
#include <optional>

#include "penstock/locks/words.h"

namespace penstock::locks {

// Ranges that do not overlap; those of one type that touch are one.
class Ranges {
 public:
  struct Lock {
    Range range;
    Type type = Type::none;
    uint32_t pid = 0;
    friend constexpr bool operator==(const Lock&, const Lock&) = default;
  };

  // Whatever was there of the range is of that type from now on, or with none no more.
  void set(const Range& range, Type type, uint32_t pid);
  // The first that keeps another owner from having the range so.
  std::optional<Lock> in_the_way(const Range& range, Type type) const;

  bool empty() const { return at_.empty(); }
  size_t size() const { return at_.size(); }
  void for_each(auto&& each) const {
    for (const auto& [begin, one] : at_) each(Lock{{begin, one.end}, one.type, one.pid});
  }

 private:
  struct Part {
    uint64_t end = 0;
    Type type = Type::none;
    uint32_t pid = 0;
  };
  using Parts = std::map<uint64_t, Part>;

  Parts::const_iterator first_behind(uint64_t offset) const;
  void split(uint64_t offset);
  void join(Parts::iterator at);

  Parts at_;  // by their beginnings
};

}  // namespace penstock::locks
