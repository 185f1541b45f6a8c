// Small numbers that are given away and come back: the smallest free one first, so that tables
// indexed by them stay as small as their use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "penstock/base.h"

namespace penstock::connection {

// Its owner locks.
class Numbers {
 public:
  explicit Numbers(uint32_t count) : count_(count) {}

  // Empty when all are in use.
  std::optional<uint32_t> take() {
    if (!returned_.empty()) {
      const uint32_t number = returned_.top();
      ASSERT(number < next_);
      returned_.pop();
      return number;
    }
    if (next_ == count_) return std::nullopt;
    return next_++;
  }
  void give_back(uint32_t number) {
    ASSERT(number < next_ && returned_.size() < next_);
    returned_.push(number);
  }

 private:
  const uint32_t count_;
  uint32_t next_ = 0;  // numbers from here on were never given away
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> returned_;
};

}  // namespace penstock::connection
