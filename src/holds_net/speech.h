// What an agent has to say, in its order, each once.
#pragma once

#include "limits.h"
#include "messages.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace penstock::holds_net {

class Speech {
 public:
  void add(Word word) { words_.push_back(std::move(word)); }
  // A question, which ask_again() says again until it has its answer.
  void ask(const Want& want, engine::Time now) {
    asking_[want.inode] = {want, now + limits::kAskAgainFirst, limits::kAskAgainFirst, true};
    add(want);
  }
  // `is_asking(want)`: it has no answer yet.
  void ask_again(engine::Time now, auto is_asking) {
    for (auto at = asking_.begin(); at != asking_.end();) {
      Asking& one = at->second;
      const bool is_due = now >= one.again;
      if (is_due && !is_asking(one.want)) {
        at = asking_.erase(at);
        continue;
      }
      if (is_due) {
        one.pause = std::min(one.pause * 2, limits::kAskAgainMost);
        one.again = now + one.pause;
        // Once, for as long as nobody hears anything.
        if (!std::exchange(one.is_queued, true)) add(one.want);
      }
      ++at;
    }
  }
  // It is of what is no more.
  void clear() {
    words_.clear();
    asking_.clear();
  }

  // Words for that life, of that session: those that have no answer yet, else the next ones, under
  // the next number. Empty: there is nothing to say.
  const std::string& next(AgentId agent, uint16_t life) {
    const bool is_for_nobody = agent_ != agent || life_ != life;
    if (is_for_nobody) said_.clear();
    agent_ = agent;
    life_ = life;
    if (said_.empty()) {
      take_words();
      if (!said_.empty()) ++sequence_;
    }
    return said_;
  }
  uint64_t sequence() const { return sequence_; }
  void answered() { said_.clear(); }

 private:
  struct Asking {
    Want want;
    engine::Time again{};
    engine::Duration pause{};
    bool is_queued = false;  // among the words
  };

  void take_words() {
    size_t claims = 0;
    while (!words_.empty()) {
      const Word& word = words_.front();
      if (said_.size() + limits::kWordBytesMax > limits::kRequestBytesMax) return;
      if (std::holds_alternative<Claim>(word) && ++claims > limits::kClaimsAtOnce) return;
      encode(word, said_);
      if (const auto* const want = std::get_if<Want>(&word)) {
        const auto asking = asking_.find(want->inode);
        if (asking != asking_.end()) asking->second.is_queued = false;
      }
      words_.pop_front();
    }
  }

  std::deque<Word> words_;
  std::map<InodeId, Asking> asking_;
  std::string said_;  // without an answer yet
  AgentId agent_;
  uint16_t life_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace penstock::holds_net
