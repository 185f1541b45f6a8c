#include <algorithm>
#include <bitset>
#include <fmt/format.h>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "penstock/base.h"
#include "penstock/testing_chains.h"

namespace penstock::test {

History::Operation History::begin_write(Register which, uint64_t value) {
  entries_.push_back({.which = which, .is_write = true, .value = value, .begun = ++moment_});
  return entries_.size() - 1;
}

History::Operation History::begin_read(Register which) {
  entries_.push_back({.which = which, .begun = ++moment_});
  return entries_.size() - 1;
}

void History::end_write(Operation operation) {
  entries_[operation].over = ++moment_;
  ++ended_;
}

void History::forget_write(Operation operation) {
  entries_[operation].never = true;
}

void History::end_read(Operation operation, uint64_t value) {
  entries_[operation].value = value;
  entries_[operation].over = ++moment_;
  ++ended_;
}

namespace {

// Wing and Gong's search (1993), with Lowe's memory of states that led nowhere (2017): which
// operations have happened, and the value that is there then.
template <class Entry>
class Search {
 public:
  explicit Search(const std::vector<Entry>& entries) : entries_(entries) {
    ASSERT(entries.size() <= kEntriesMax);
    for (size_t i = 0; i < entries.size(); ++i) wanted_[i] = entries[i].over != UINT64_MAX;
  }

  bool found() { return found({}, 0); }

 private:
  static constexpr size_t kEntriesMax = 256;
  using Happened = std::bitset<kEntriesMax>;

  bool found(Happened happened, uint64_t value) {
    if ((happened & wanted_) == wanted_) return true;
    if (!seen_[value].insert(happened).second) return false;
    uint64_t first_end = UINT64_MAX;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!happened[i]) first_end = std::min(first_end, entries_[i].over);
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (happened[i] || entries_[i].begun > first_end) continue;
      if (!entries_[i].is_write && entries_[i].value != value) continue;
      const uint64_t then = entries_[i].is_write ? entries_[i].value : value;
      if (found(Happened(happened).set(i), then)) return true;
    }
    return false;
  }

  const std::vector<Entry>& entries_;
  Happened wanted_;
  std::unordered_map<uint64_t, std::unordered_set<Happened>> seen_;  // by the value that is there
};

}  // namespace

std::string History::check() const {
  std::set<uint64_t> read;
  for (const Entry& entry : entries_) {
    if (!entry.is_write && entry.over != UINT64_MAX) read.insert(entry.value);
  }
  std::map<Register, std::vector<Entry>> by_register;
  for (const Entry& entry : entries_) {
    if (entry.never && read.contains(entry.value)) return explain(entry.which, {entry});
    // A write without an end that nobody saw need not have happened.
    if (entry.over == UINT64_MAX && (!entry.is_write || !read.contains(entry.value))) continue;
    by_register[entry.which].push_back(entry);
  }
  for (const auto& [which, entries] : by_register) {
    if (!Search<Entry>(entries).found()) return explain(which, entries);
  }
  return {};
}

std::string History::explain(const Register& which, const std::vector<Entry>& entries) {
  std::string text = fmt::format("register {} of chunk {}:", which.second, which.first);
  for (const Entry& entry : entries) {
    const std::string over = entry.over == UINT64_MAX ? "?" : std::to_string(entry.over);
    text += fmt::format("\n  [{}, {}] {} {}", entry.begun, over, entry.is_write ? "write" : "read",
                        entry.value);
  }
  return text;
}

}  // namespace penstock::test
