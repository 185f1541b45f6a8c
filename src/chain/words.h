// Who has said that an update is durable with it: kept by the commit point, which waits for the
// word of each replica before it.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "penstock/chain/view.h"
#include "penstock/wire.h"

namespace penstock::chain {

// Of one chunk: about the update that is pending there, or that is about to arrive. What was said
// stays true in later versions; the calls that said it are answered when the update is committed.
class Words {
 public:
  bool empty() const { return said_.empty(); }
  const UpdateName& name() const { return name_; }

  // `call` is null if the word came with the update itself. What was said of another update counts
  // no more.
  void hear(const UpdateName& name, const Member& from, engine::IncomingCall* call) {
    if (name != name_) end(Code::cancelled);
    name_ = name;
    const auto same = [&from](const Word& word) { return word.is_of(from); };
    const auto found = std::find_if(said_.begin(), said_.end(), same);
    if (found == said_.end()) {
      said_.push_back({from.target, from.incarnation, call});
    } else if (call != nullptr) {
      // The sender has given up on its earlier call.
      if (found->call != nullptr) found->call->reply(Code::cancelled, {});
      found->call = call;
    }
  }
  bool has(const UpdateName& name, const Member& from) const {
    const auto same = [&from](const Word& word) { return word.is_of(from); };
    return name == name_ && std::any_of(said_.begin(), said_.end(), same);
  }
  // Takes the calls out, which somebody else answers from here on.
  std::vector<engine::IncomingCall*> take_calls() {
    std::vector<engine::IncomingCall*> calls;
    for (Word& word : said_) {
      if (word.call != nullptr) calls.push_back(std::exchange(word.call, nullptr));
    }
    return calls;
  }
  // The update is committed, or nothing is known of it any more.
  void end(Status status) {
    for (engine::IncomingCall* call : take_calls()) call->reply(status, {});
    said_.clear();
    name_ = {};
  }

 private:
  struct Word {
    TargetId target;
    uint64_t incarnation = 0;
    engine::IncomingCall* call = nullptr;  // waits for the commit

    bool is_of(const Member& member) const {
      return target == member.target && incarnation == member.incarnation;
    }
  };

  UpdateName name_;
  std::vector<Word> said_;
};

}  // namespace penstock::chain
