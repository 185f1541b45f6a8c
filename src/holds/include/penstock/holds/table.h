// The table of holds: what meta knows, in memory, of who has what.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "penstock/holds/limits.h"
#include "penstock/holds/words.h"

namespace penstock::holds {

struct Entry;
struct Session;
struct Holder;
struct Waiter;

// A pure function of what it is told, and when: it sends nothing, reads no clock, and keeps nothing
// durably. Whoever owns it does what take_actions() says. Messages may come late, doubled and in
// another order; an answer that is of nothing any more is ignored. Times are of a clock that goes
// on while machines are suspended, and never go back. Not thread safe.
class Table {
 public:
  // A new life of meta, larger than all before. `recorded` are the sessions that are on record;
  // those whose end is, too, are to be expelled at once. Nothing is given before each of them has
  // claimed what it has, whether its lease lapsed or not, or has ended as any other. `wait`: until
  // when they may claim, which is a lease and its guard from the end of the lease of the life
  // before.
  Table(uint16_t life, const std::vector<AgentId>& recorded, engine::Time now, engine::Time wait);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // No agent could be heard until now, as meta may not answer: the time in which they renew, claim
  // and answer recalls begins anew.
  void not_heard(engine::Time now);

  // A session begins, and those of the node before it end. One that is not the node's latest is
  // ignored.
  void begin(AgentId agent, engine::Time now);
  // Its lease goes on, for limits::kAgentLease from when it sent this, also where it had lapsed
  // and the session was not ended yet. False: it has none; it begins another session once it has
  // dropped everything.
  bool renew(AgentId agent, engine::Time now);
  // Everything of an ended session is refused by the targets, and what they had of it is settled.
  void fenced(AgentId agent, engine::Time now);
  // The agent itself says that it has dropped everything: its lease is not waited for.
  void dropped(AgentId agent, engine::Time now);

  // It shall end, whatever it says: its node was removed, or its end is on record already.
  void expel(AgentId agent, engine::Time now);

  // Of a recorded session of an earlier life: the stamp that the hold has in this one. stale: it is
  // too late. conflict: another has claimed what does not go beside it; then it is expelled. Who is
  // not trusted has what it claims as long as nobody else does: one that is takes it from it, and
  // then that one is expelled.
  Result<Stamp> claim(AgentId agent, InodeId inode, Hold hold, bool in_use, bool is_trusted = true);
  void claimed(AgentId agent, engine::Time now);

  // busy: too many of this agent wait. stale: the session is not, or has ended.
  Status want(const Want& want, engine::Time now);
  // The agent waits no longer. What was given meanwhile it has, until it is recalled.
  void cancel(AgentId agent, InodeId inode, RequestId request, engine::Time now);
  void back(const Back& back, engine::Time now);
  // The agent has no use for the hold of that stamp any more.
  void give_up(AgentId agent, InodeId inode, Stamp grant, bool in_use, engine::Time now);
  // What was in use is so no more.
  void unused(AgentId agent, InodeId inode);

  void barrier(BarrierWant want, engine::Time now);
  // Another agent than `maker` may keep something of the inode, or wait for it: who changes it
  // needs a barrier. No: whoever is given it from now on reads it later.
  bool is_kept_elsewhere(InodeId inode, AgentId maker) const;
  // The operation is done. `changed`: what it changed may be seen.
  void over(RequestId request, bool changed, engine::Time now);

  // Of what is read, from now on, of an inode from the records: it may be kept under a hold until
  // something with a later stamp is recalled. None: something is about to change it.
  Stamp reading(InodeId inode);

  // At least every limits::kTickInterval.
  void tick(engine::Time now);
  std::vector<Action> take_actions();
  // Of which some agent's last word has been heard: it has them in use no more, or never had. What
  // others have is for is_in_use() to say.
  std::vector<InodeId> take_unused();

  // Recalls that were not answered yet, for an agent that asks for all of them again.
  std::vector<Recall> recalls_of(AgentId agent) const;
  // Some agent has it in use, or has not said that it has not; another one than `beside`.
  bool is_in_use(InodeId inode, AgentId beside = {}) const;
  Hold hold_of(AgentId agent, InodeId inode) const;
  // Some session has it exclusive, or nobody knows.
  bool is_exclusive(InodeId inode) const;
  // The same as far as it is known: what those had who have not claimed it is for recovery.
  bool is_known_exclusive(InodeId inode) const;
  // What the session has exclusive, as far as it is known.
  std::vector<InodeId> exclusives_of(AgentId agent) const;
  // It may go on: renew() would say so.
  bool is_good(AgentId agent) const;
  bool has_session(NodeId node) const;  // some session of it is
  Stamp grant_of(AgentId agent, InodeId inode) const;
  size_t holds() const { return holds_; }
  bool is_claiming() const { return claiming_; }
  // Of earlier lives, and have neither claimed all that they have nor gone.
  std::vector<AgentId> inherited() const;

 private:
  struct Barrier;
  // When something is to be looked at, in order of time, as all wait equally long.
  struct Recalled {
    engine::Time since;
    AgentId agent;
    InodeId inode;
    Stamp recall;
  };

  Session* good(AgentId agent);
  void disown_untrusted(Entry& entry, AgentId claims, Hold hold);
  Entry& entry(InodeId inode);
  Entry* find(InodeId inode);
  const Holder* find_holder(AgentId agent, InodeId inode) const;
  Holder& holder_of(Entry& entry, Session& session);
  void remove(Entry& entry, Holder& holder);
  void forget_if_idle(Entry& entry);

  void end(Session& session);
  void drop(Session& session);
  void drop_waiting(Session& session);
  void open_if_claimed(engine::Time now);
  void make_room(Session& session, engine::Time now);

  void advance_all();
  void advance(Entry& entry);
  void answer_askers(Entry& entry);
  bool is_clear(Entry& entry, Waiter& waiter);
  bool is_clear_of(Holder& holder, const Waiter& waiter, size_t others);
  bool is_enough_to_tell(const Holder& holder, const Waiter& waiter, size_t others) const;
  void take(Entry& entry, const Waiter& waiter);
  void give(Entry& entry, Session& session, RequestId request, Hold hold);
  void give_at_once(Entry& entry, Session& session, const Want& want);
  void recall(Holder& holder, Hold leave);
  void tell(Holder& holder, const std::vector<std::string>& names);
  void queue_part(Barrier& barrier);
  void lower(Entry& entry, Holder& holder, const Back& back);
  Stamp next_stamp() { return Stamp(++stamp_); }
  void touch(const Entry& entry);

  uint64_t stamp_;
  engine::Time now_{};
  engine::Time wait_;
  bool claiming_ = true;
  size_t holds_ = 0;
  std::map<AgentId, std::unique_ptr<Session>> sessions_;
  std::unordered_map<InodeId, std::unique_ptr<Entry>> entries_;
  std::map<RequestId, std::unique_ptr<Barrier>> barriers_;
  std::deque<Recalled> recalled_;
  std::deque<std::pair<engine::Time, InodeId>> changed_;
  std::vector<InodeId> work_;  // which are to be looked at
  std::vector<Action> actions_;
  std::vector<InodeId> unused_;
};

}  // namespace penstock::holds
