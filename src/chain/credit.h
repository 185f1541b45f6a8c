// Space for updates, granted ahead (decision 0044, *An update*, 3): the head gives an update a
// number only when it and all its serving successors have reserved the space for it.
//
// A grant says how many bytes the predecessor may have used in all since the version began, so that
// it may be said twice. One is asked for at a time, and has a number: late ones change nothing. A
// new version begins without any.
#pragma once

#include "shared.h"

#include <deque>

namespace penstock::chain {

// Bytes of new blocks that an update takes at most.
uint64_t space_for(const store::UpdatePart& part);

class Credit {
 public:
  explicit Credit(Core& core) : core_(core) {}

  // As the head: takes what the successor has granted, for an update that gets its number now and
  // reserves so much here; or says that there is not enough. `taken_before`: for other parts of it.
  bool take(uint64_t bytes, uint64_t taken_before = 0);
  // It was not enough. `then` runs when it is worth another try, or with false when there has been
  // no space for a while.
  void ask(uint64_t bytes, std::function<void(bool worth)> then);
  // As a successor: such an update has come, and reserves so much itself from now on.
  void arrived(uint64_t bytes);

  void part_changed();
  void on_grant(engine::IncomingCall& call, const wire::ChainGrantRequest& request);

 private:
  struct Waiting {
    uint64_t bytes = 0;
    engine::Time since{};
    std::function<void(bool)> then;
  };

  bool is_granted(uint64_t bytes) const;
  bool has_enough(uint64_t bytes, uint64_t taken_before = 0);
  void ask_successor();
  void answered(Task<PeerCall>& done);
  void look_again(engine::Duration pause);
  void serve_waiting();
  void give_idle_back();
  void set_given(uint64_t given);
  void pass_on(engine::IncomingCall& call, const wire::ChainGrantRequest& request, uint64_t before,
               bool scarce);
  void reply(engine::IncomingCall& call, bool scarce) const;

  Core& core_;
  // Of the head.
  uint64_t granted_ = 0;  // by the successor, in all
  uint64_t spent_ = 0;
  uint64_t sequence_ = 0;
  bool asking_ = false;
  bool heard_ = false;  // the successor has answered the last question
  bool looking_ = false;
  bool giving_ = false;
  bool scarce_ = false;  // what is not needed is given back
  engine::Time last_take_{};
  std::deque<Waiting> waiting_;
  // Of a successor.
  uint64_t given_ = 0;  // to the predecessor, in all
  uint64_t used_ = 0;
  uint64_t answered_ = 0;  // the number of the last question
};

}  // namespace penstock::chain
