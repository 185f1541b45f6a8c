// One value that one program at a time writes, through whatever process, and that all read through
// any: what reads may find beside sessions that end.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "penstock/holds.h"

namespace penstock::client {

// As test::Register, with who it was that has a value in memory: what a session had not yet written
// may be lost with it, until another process has found it. Then it stays.
class Cell {
 public:
  enum class Written : uint8_t {
    perhaps,  // it failed, or has not ended; may happen until the next has ended
    behind,   // until its session ends
    surely,
  };

  // Whose machine may lose power, with what others have read of it, too.
  NodeId volatile_of{};

  size_t begin(uint64_t value, holds::AgentId by) {
    writes_.push_back({value, by, Written::perhaps});
    return writes_.size() - 1;
  }
  void end(size_t write, Written how) {
    writes_[write].how = std::max(writes_[write].how, how);
    if (how != Written::perhaps) raise(write);
  }
  // What this process wrote behind is in the targets, up to then.
  void synced(size_t up_to, holds::AgentId by) {
    for (size_t i = 0; i <= up_to; ++i) {
      Write& write = writes_[i];
      if (write.by == by && write.how == Written::behind) write.how = Written::surely;
    }
  }
  // It, and what the node had before, has ended.
  void lost(holds::AgentId by) {
    size_t floor = 0;
    for (size_t i = 0; i < writes_.size(); ++i) {
      Write& write = writes_[i];
      const bool is_its = write.by.node == by.node && write.by.session <= by.session;
      if (is_its && write.how == Written::behind) write.how = Written::perhaps;
      if (write.how != Written::perhaps) floor = i;
    }
    if (floor != floors_.back()) floors_.push_back(floor);
  }

  size_t last() const { return writes_.size() - 1; }
  uint64_t value_of(size_t write) const { return writes_[write].value; }
  // The value that is known to be there, and whether no other can be.
  uint64_t known() const { return writes_[floors_.back()].value; }
  bool is_certain() const { return floors_.back() == writes_.size() - 1; }

  size_t moment() const { return floors_.size() - 1; }
  // Empty, or what is wrong with the value that a read has found that began at that moment.
  // `is_firm`: what is behind counts.
  std::string check(size_t begun, uint64_t value, holds::AgentId reader, bool is_firm = true) {
    const size_t floor =
        *std::min_element(floors_.begin() + static_cast<ptrdiff_t>(begun), floors_.end());
    size_t found = is_firm ? floor : sure_before(floor);
    while (found < writes_.size() && writes_[found].value != value) ++found;
    if (found == writes_.size()) {
      return "finds " + std::to_string(value) + " where write " + std::to_string(floor) + " of " +
             std::to_string(writes_.size() - 1) + " left " + std::to_string(writes_[floor].value) +
             " (" + std::to_string(writes_[floor].by.node.value) + "." +
             std::to_string(writes_[floor].by.session) + ")";
    }
    Write& write = writes_[found];
    if (write.by.node == volatile_of && write.how == Written::behind) {
      // It stays so.
    } else if (write.by != reader) {
      write.how = Written::surely;
    } else {
      write.how = std::max(write.how, Written::behind);
    }
    raise(found);
    return {};
  }

 private:
  struct Write {
    uint64_t value = 0;
    holds::AgentId by;
    Written how = Written::perhaps;
  };
  size_t sure_before(size_t floor) const {
    while (floor > 0 && writes_[floor].how != Written::surely) --floor;
    return floor;
  }
  void raise(size_t floor) {
    if (floor > floors_.back()) floors_.push_back(floor);
  }

  std::vector<Write> writes_{{0, {}, Written::surely}};
  std::vector<size_t> floors_{0};
};

}  // namespace penstock::client
