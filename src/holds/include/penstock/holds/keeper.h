// An agent's side of holds: what it has, what it asks for, and what it gives back, in which order.
#pragma once

#include <unordered_map>
#include <variant>
#include <vector>

#include "penstock/holds/limits.h"
#include "penstock/holds/words.h"

namespace penstock::holds {

// To meta: asked again until it is answered, or is_asking() says that it is not to be.
struct Ask {
  Want want;
};
// To meta, once.
struct Answer {
  Back back;
};
// To meta, until claimed(): what it has exclusive or in use, for a new life of it.
struct Claim {
  AgentId agent;
  std::vector<std::pair<InodeId, Hold>> has;  // with none: in use
};
// To meta, until begun(): it has nothing, and wants to begin.
struct Begin {
  AgentId agent;
};
// To the agent itself. What was kept of the inode beyond `leave` goes, what was written behind and
// is under way to the targets gets there; or with names, just these go. Then dropped().
struct Drop {
  InodeId inode;
  Stamp recall;
  Hold leave = Hold::none;
  std::vector<std::string> names;
  bool keeps = false;  // operations go on, and the hold stays
};
// What was kept of all inodes but those that it has exclusive goes, or where nothing is its own any
// more, of all, with what was written behind. Then all_dropped().
struct DropAll {
  bool is_lost = false;
};
// Operations that wait for the inode try again. Then resumed().
struct Resume {
  InodeId inode;
};

using KeeperAction = std::variant<Ask, Answer, Claim, Begin, Drop, DropAll, Resume>;

// As Table, a pure function of what it is told; whoever owns it does what take_actions() says, in
// that order. Not thread safe.
//
// While its lease is over nothing begins and nothing is good, and what it has stays: meta, of
// whatever life, says whether that is its own still (docs/decisions/0070).
class Keeper {
 public:
  // The next session of the node has that number.
  explicit Keeper(AgentId first) : id_(first) {}

  // What meta says. `sent`: when that was sent to which it is the answer, and `life` whose it is.
  // `next`: where it is not good, the least number that may be.
  void begun(AgentId agent, bool good, engine::Time sent, uint16_t life, uint64_t next = 0);
  void renewed(AgentId agent, bool good, engine::Time sent, uint16_t life);
  void claimed(AgentId agent, uint16_t life, const std::vector<std::pair<InodeId, Stamp>>& grants);
  void given(const Given& given, engine::Time now);
  // In place of that: meta gives this agent no such hold. True: who waits for the inode is told
  // so by the owner, or says again that it waits; nothing is asked until then.
  bool refused(InodeId inode, RequestId request);
  void recalled(const Recall& recall, engine::Time now);

  // Holds that were recalled stay for a moment, as they are in use: to be looked at every
  // limits::kStayLook, while there are any.
  bool has_stays() const { return !stays_.empty(); }
  void look_at_stays(engine::Time now);

  // An operation begins; true: it may, and ends with leave(). False: it waits, until Resume.
  bool enter(InodeId inode, Hold hold, engine::Time now);
  void wait(InodeId inode, Hold hold);
  // The inode is used often, though no operation waits for a hold of it: it gets a shared one where
  // nobody has it exclusive.
  void want(InodeId inode, engine::Time now);
  // By what an operation is known that entered: it is void once generation() is another one.
  uint64_t generation(InodeId inode) const;
  void leave(InodeId inode, uint64_t generation);
  // Whether what an operation found may be given out, or kept.
  bool is_good(InodeId inode, AgentId session, uint64_t generation, engine::Time now) const;
  // Whether what meta said at that stamp may be kept. Of what this agent changes itself nothing
  // older may be kept than the change, which is for who keeps it to see to.
  bool may_keep(InodeId inode, Stamp stamp, engine::Time now) const;
  // An open, or a region, has the inode; or has no more.
  void use(InodeId inode);
  void unuse(InodeId inode);

  void dropped(InodeId inode, Stamp recall);
  void all_dropped();
  void resumed(InodeId inode);

  std::vector<KeeperAction> take_actions() { return std::exchange(actions_, {}); }

  AgentId id() const { return id_; }
  uint16_t life() const { return life_; }
  bool is_ready(engine::Time now) const { return state_ == State::ready && now < lease_end_; }
  // Until when what is kept may be found, if it is not recalled; the beginning of time: not at all.
  engine::Time ready_until() const { return state_ == State::ready ? lease_end_ : engine::Time{}; }
  // Its lease runs, though nothing may begin yet in a life of meta that it has not claimed of.
  bool is_leased(engine::Time now) const { return has_begun() && now < lease_end_; }
  bool has_begun() const { return state_ != State::beginning && state_ != State::lost; }
  bool is_asking(InodeId inode, RequestId request) const;
  bool is_claiming() const { return state_ == State::claiming; }
  Hold hold_of(InodeId inode) const;
  bool is_used(InodeId inode) const;
  // Operations that run and are not void.
  uint64_t running() const;
  // Nothing of the inode runs, waits or is being given back.
  bool is_idle() const;

 private:
  enum class State : uint8_t {
    beginning,  // it has nothing, and meta does not know of it
    ready,
    renewing,  // meta is another one: what is not exclusive is being dropped
    claiming,
    lost,  // nothing is its own, and all is being dropped
  };
  struct Kept {
    Hold hold = Hold::none;
    Hold parked = Hold::none;  // what those who wait want
    Hold leave = Hold::none;   // of the recall
    bool closed = false;       // nothing begins, as it is being given back
    bool dropping = false;
    bool stays = false;          // though it was recalled
    bool was_entered = false;    // while it stays
    uint8_t stays_left_out = 0;  // the next ones
    uint32_t running = 0;
    uint32_t uses = 0;
    Stamp grant;
    Stamp answered;   // the latest recall of the hold that was
    Stamp heard;      // the same, of one that left it
    Stamp recall;     // that is to be answered
    Stamp recalled;   // the grant that it names
    Stamp told;       // a recall that leaves the hold, and is to be answered
    RequestId asked;  // that is out
    uint64_t generation = 0;
    engine::Time since{};    // it is exclusive
    engine::Time entered{};  // the last time
  };

  Kept& at(InodeId inode);
  void forget_if_idle(InodeId inode);
  void ask(InodeId inode, Kept& kept);
  void resume(InodeId inode, Kept& kept);
  void drop_if_due(InodeId inode, Kept& kept);
  void begin_drop(InodeId inode, Kept& kept);
  bool is_worth_staying(const Kept& kept) const;
  void close(InodeId inode, Kept& kept);
  void drop_if_done(InodeId inode, Kept& kept);
  void answer(InodeId inode, const Kept& kept, Stamp recall, Hold left);
  void void_all(bool exclusive_too);
  void lose();

  AgentId id_;
  State state_ = State::beginning;
  uint16_t life_ = 0;
  engine::Time lease_end_{};
  engine::Time now_{};  // as it was told last
  uint64_t requests_ = 0;
  uint64_t generations_ = 0;
  std::unordered_map<InodeId, Kept> all_;
  std::vector<InodeId> stays_;
  std::vector<KeeperAction> actions_;
};

// The life of meta that said it.
constexpr uint16_t life_of(Stamp stamp) {
  return static_cast<uint16_t>(stamp.value >> 48);
}

}  // namespace penstock::holds
