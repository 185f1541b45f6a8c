// The locks of all files, and who waits for them.
#pragma once

#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "penstock/locks/limits.h"
#include "penstock/locks/ranges.h"
#include "penstock/locks/words.h"

namespace penstock::locks {

// A pure function of what it is told. Not thread safe.
//
// As Linux: a lock that nothing stands in the way of is given at once, also where others wait; of
// those that wait the first that can have it is served first. A lock of flock that becomes another
// type is given up before it is asked for again. Range locks that would wait in a ring are refused
// (a deadlock), also where the ring is closed by what another was given later; those of flock are
// not looked at.
class Table {
 public:
  // `waits`: by which number it is known if it has to wait, above 0, and no other one of that agent
  // has it; 0: it does not wait.
  Answer set(const Wanted& wanted, RequestId waits = {});
  // What is in the way of it.
  std::optional<Held> get(const Wanted& wanted) const;
  // True if it waited; then it does so no more, and it is not among take_ended().
  bool cancel(AgentId agent, RequestId request);
  bool is_waiting(AgentId agent, RequestId request) const;
  // All of the owner's in that file. What it waits for it goes on waiting for.
  void release(const Owner& owner, InodeId inode);
  // Everything of a session, which is over.
  void end(AgentId agent);

  std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }

  size_t locks() const { return locks_; }
  size_t waiting() const { return waiting_; }
  size_t locks_of(AgentId agent) const;
  size_t waiting_of(AgentId agent) const;

 private:
  struct Waiting {
    Wanted wanted;
    RequestId request;
  };
  struct File {
    std::map<Owner, Ranges> owners;
    std::list<Waiting> waiting;  // in the order in which they came
    size_t locks = 0;
  };
  struct Agent {
    size_t locks = 0;
    std::map<RequestId, std::pair<InodeId, std::list<Waiting>::iterator>> waiting;
  };
  using Files = std::unordered_map<InodeId, File>;

  static const std::pair<const Owner, Ranges>* blocker_of(const File& file, const Wanted& wanted);
  static bool is_whole(const Wanted& wanted);
  bool put(File& file, const Wanted& wanted);
  bool has_room(const File& file, const Wanted& wanted) const;
  void wait(File& file, const Wanted& wanted, RequestId request);
  void unqueue(File& file, std::list<Waiting>::iterator at);
  bool is_deadlock(const Wanted& wanted) const;
  void wake(File& file);
  bool serve_first(File& file);
  bool refuse_ring(File& file);
  void finish(File& file, std::list<Waiting>::iterator at, Answer answer);
  void forget_if_idle(InodeId inode);

  Files files_;
  std::map<AgentId, Agent> agents_;
  // What owners of range locks wait for.
  std::multimap<Owner, const Wanted*> blocked_;
  std::vector<Ended> ended_;
  size_t locks_ = 0;
  size_t waiting_ = 0;
};

}  // namespace penstock::locks
