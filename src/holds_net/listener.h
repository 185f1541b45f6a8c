// What a node is to be told.
#pragma once

#include "calls.h"
#include "limits.h"
#include "messages.h"

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace penstock::holds_net {

// Of a recall. More than it has room for: none, which is all of the directory.
inline void bound_names(std::vector<std::string>& names) {
  size_t bytes = 0;
  for (const std::string& name : names) bytes += name.size();
  if (names.size() > limits::kNamesMax || bytes > limits::kNamesBytesMax) names.clear();
}

// Of a node: its latest session, as far as the service heard of it in this life.
struct Listener {
  uint64_t session = 0;
  uint64_t caller = 0;    // 0: of an earlier life, and not heard yet
  uint64_t sequence = 0;  // of what it said last
  size_t claims = 0;
  bool is_begun_here = false;  // and not in an earlier life
  bool has_ended = false;
  Asked* attending = nullptr;

  // The table's number of what the node calls otherwise: the root of its subtree.
  void note_number(InodeId number, InodeId called) {
    if (called_.size() >= limits::kRootsMax && !called_.contains(number)) called_.clear();
    called_[number] = called;
  }
  std::vector<InodeId> numbers_of(InodeId called) const {
    std::vector<InodeId> numbers;
    for (const auto& [number, is_called] : called_) {
      if (is_called == called) numbers.push_back(number);
    }
    return numbers;
  }

  // What is not told for want of room is asked for again, or said again by remind().
  void add(Told told) {
    if (to_tell.size() < limits::kTellMost) to_tell.push_back(call(std::move(told)));
  }
  void add_recall(const Recall& recall, engine::Time now) {
    if (unanswered.empty()) recall_again = now + limits::kRecallAgain;
    unanswered.insert(recall.recall);
    add(recall);
  }
  bool has_to_be_reminded(engine::Time now) const {
    return !unanswered.empty() && to_tell.empty() && now >= recall_again;
  }
  // Of all recalls that are not answered.
  void remind(std::vector<Recall> recalls, engine::Time now) {
    recall_again = now + limits::kRecallAgain;
    unanswered.clear();
    for (Recall& recall : recalls) {
      unanswered.insert(recall.recall);
      to_tell.push_back(call(std::move(recall)));
    }
  }
  void clear() {
    to_tell.clear();
    unanswered.clear();
  }
  // As much as there is room for, of all bytes.
  void put(std::string& bytes, size_t room) {
    std::string one;
    while (!to_tell.empty()) {
      one.clear();
      encode(to_tell.front(), one);
      if (bytes.size() + one.size() > room && !bytes.empty()) return;
      to_tell.pop_front();
      // What no answer has room for is not told.
      if (one.size() <= room) bytes += one;
    }
  }

  std::deque<Told> to_tell;
  std::set<Stamp> unanswered;  // recalls
  engine::Time recall_again{};

 private:
  Told call(Told told) const {
    if (called_.empty()) return told;
    std::visit(
        [this](auto& one) {
          if constexpr (requires { one.inode; }) {
            const auto found = called_.find(one.inode);
            if (found != called_.end()) one.inode = found->second;
          }
        },
        told);
    return told;
  }

  std::map<InodeId, InodeId> called_;
};

}  // namespace penstock::holds_net
