// One step under way: the state, the time, and what has come of it so far.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/controller/step.h"

namespace penstock::controller {

inline constexpr auto kServing = CopyState::serving;
inline constexpr auto kSyncing = CopyState::syncing;
inline constexpr auto kWaiting = CopyState::waiting;
inline constexpr auto kLastServing = CopyState::last_serving;

// Used once: run(), whose parts are in files by kind of event. Chains are changed through edit()
// only, so that each that differs in the end is committed; every other record is named in
// changed().
class Stepper {
 public:
  Stepper(State& state, engine::Time now);

  Actions run(const Event& event);

 private:
  // nodes.cc: processes that come and go
  void on(const Join& join);
  void on(const Leave& leave);
  Node* known_sender(const Sender& from, std::string_view what);
  void admit(const Join& join);
  void let_in(Node& node, const Join& join);
  void add_node(const Join& join);
  const Node* other_with_names(const Join& join) const;
  void set_silent(Node& node, bool silent);
  void count(const Node& node, int change);

  // tokens.cc: nodes that prove who they are
  void on(const Enroll& enroll);
  void on(const MakeToken& make);
  void on(const RevokeToken& revoke);
  Token* token_for(const Enroll& enroll);
  std::string fault_in(const MakeToken& make) const;
  void drop_tokens(engine::WallTime now);

  // openings.cc: targets that are opened
  void on(const OpenTarget& open);
  bool may_open(const Target& target, const OpenTarget& open);
  bool may_move(const Target& target, const Node& to);
  void adopt(Target& target, Node& node);
  void add_target(Node& node, const OpenTarget& open);
  void give_incarnation(Target& target, const OpenTarget& open);

  // heartbeat.cc
  void on(const Heartbeat& heartbeat);
  bool is_answered(Node& node, const Heartbeat& heartbeat);
  void take_targets(Node& node, const std::vector<TargetReport>& reports);
  void take_target(Node& node, const TargetReport& report);
  void take_chain(const Node& node, const ChainReport& report);
  void grant(Node& node, uint64_t sequence, bool lease);
  bool may_serve(Target& target);

  // tick.cc
  void on(const Tick& tick);
  void expire_nodes();
  void expire_targets();
  void end_suspicions();
  bool may_suspect(const Node& node) const;
  void suspect_one();
  void queue_open_chains();
  void balance();

  // orders.cc; fence.cc
  void on(const CreateTable& create);
  void on(const Move& move);
  void on(const Drain& drain);
  void on(const DrainTarget& drain);
  void count_drain(Node& node);
  void on(const Remove& remove);
  void on(const Forget& forget);
  void on(const Trust& trust);
  void on(const Fence& fence);

  // restrict.cc: what nodes are limited to
  void on(const Restrict& restrict);
  void on(const PublishKey& publish);
  std::string fault_in(const rights::Restriction& what, uint8_t roles) const;
  void restrict_node(const Node& node, const rights::Restriction& what);

  // orders.cc
  std::string fault_in(const CreateTable& create) const;
  std::string fault_in(const CreateTable& create, const std::vector<TargetId>& chain) const;
  std::string fault_in(const Move& move) const;
  size_t chains_lost_without(const std::vector<TargetId>& gone) const;
  void forget_target(Target& target);

  // settle.cc: the rules of a chain
  void settle(Chain& chain);
  void drop_lost(Chain& chain);
  void drop_all(Chain& chain);
  void give_up(Chain& chain);
  void revive(Chain& chain);
  void promote(Chain& chain);
  void refresh(Chain& chain);
  void end_syncing(Chain& chain);
  void trim(Chain& chain);
  void order(Chain& chain);

  // settle_size.cc: rules by which a chain grows and shrinks
  void demote(Chain& chain);
  Member* worst_serving(Chain& chain) const;
  TargetId choose(const Chain& chain);
  void extend(Chain& chain);
  void begin_empty(Chain& chain);
  bool has_room_to_sync(const Chain& chain, const Member& member) const;
  void begin_syncing(Chain& chain);

  // members.cc: what the rules ask of members
  const Target& target_of(const Member& member) const { return state_.at(member.target); }
  const Node& node_of(const Member& member) const { return state_.at(target_of(member).node); }
  bool is_up(const Member& member) const;
  bool is_lost(const Chain& chain, const Member& member) const;
  bool has_failed(const Chain& chain, const Member& member) const;
  bool is_sound(const Member& member) const;   // neither failing, suspected nor forgotten
  bool is_wanted(const Member& member) const;  // and nobody wants it elsewhere
  bool is_promising(const Member& member) const;
  bool is_useful_syncing(const Chain& chain, const Member& member) const;
  bool may_come_back(const Member& member) const;
  bool knows(const Chain& chain, const Member& member) const;
  bool was_heard_since(const Chain& chain, engine::Time moment) const;
  size_t good_copies(const Chain& chain) const;
  bool may_add_members() const;
  size_t part_of_nodes() const;

  // stepper.cc
  void set_down(Target& target, engine::Time since);
  void set_node_down(const Node& node, engine::Time since);
  void queue(const Target& target);  // all of its chains will be settled
  void queue(Chain& chain);
  void queue(const Node& node);
  Chain& edit(Chain& chain);
  void add_member(Chain& chain, TargetId target);
  void set_state(Chain& chain, Member& member, CopyState state);
  void erase_member(Chain& chain, size_t index);
  void set_open(Chain& chain, bool open);
  void settle_queued();
  void changed(const Node& node);
  void changed(const Target& target, bool published);
  void refuse(Code code, std::string reason);
  void notice(std::string text);
  void finish_chains();
  void finish_chain(Chain& chain, const std::vector<Member>& before);
  void publish();

  State& state_;
  const engine::Time now_;
  Actions actions_;
  std::map<ChainId, std::vector<Member>> before_;  // of chains that were edited
  std::vector<TargetId> published_targets_;
  std::vector<ChainId> published_chains_;
  size_t settled_left_ = limits::kSettledPerStep;
  size_t choices_left_ = limits::kChoicesPerStep;
};

// Names for people.
std::string name_of(const Node& node);
std::string name_of(const Target& target);
std::string name_of(const Chain& chain);

}  // namespace penstock::controller
