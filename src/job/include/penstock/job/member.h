// Member: this process as one of a job.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/place.h"
#include "penstock/job/unique_id.h"

namespace penstock::job {

using Time = std::chrono::steady_clock::time_point;
inline constexpr Time kNever = Time::max();

// What one rank brings to a meeting. Lent for the call: descriptors stay the caller's.
struct Bring {
  std::span<const std::byte> bytes = {};
  std::span<const int> descriptors = {};
};

// What one rank brought. Descriptors are those of ranks of the own node only (the own ones among
// them, as duplicates), close-on-exec.
struct Brought {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
};

// `ranks` ascend, the own one among them. Sets of several meetings may overlap, and disjoint sets
// may use one name at once. A rank is at most once at a time in a meeting of one name and one set.
struct Meeting {
  std::string name;
  std::vector<uint32_t> ranks;
};

// One per process and job. All methods may be called by any thread. A thread of its own reads what
// the job tells, so that a process that looks at memory only learns of ends, too.
//
// After fork() without exec() the child is no member: there exchange() fails, and leave() and
// abort() do nothing.
class Member {
 public:
  // What a launcher left in the environment (docs/formats/job.md): 'penstock run', or Open MPI's,
  // MPICH's or Slurm's where all ranks are on one node; then rank 0 has the room, and the others
  // wait for it for a minute. not_found: no launcher did. Once in a process: the descriptor is
  // taken over.
  static Outcome<std::unique_ptr<Member>> from_environment();
  // Of `size` processes that all call this with one id, which one of them made (unique_id.h).
  // Returns when all have joined, or fails at the deadline or when one of them ends before. On each
  // node the process that joins first has the room of all of it: with its end, and with that of the
  // one that made the id, others are cut off from what it served them.
  static Outcome<std::unique_ptr<Member>> by_unique_id(const UniqueId& id, uint32_t rank,
                                                       uint32_t size, Time deadline);
  // A job of one, for a program that was started by hand.
  static Outcome<std::unique_ptr<Member>> alone();

  // Without leave() before, the others take it for the end of this rank. One that has the room of
  // its node waits for the others there, for a few seconds at most.
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  const Place& place() const;
  uint32_t node_of(uint32_t rank) const;

  // Each of the meeting's ranks brings something, and gets what all brought, in the order of ranks.
  // Fails, with a message that names the rank, with
  //   peer_gone         one of the ranks has ended or left
  //   timed_out         at `deadline`; the message says who had not come. The others of the meeting
  //                     are told then (cancelled); one that comes later is told at once.
  //   cancelled         another rank gave up, see above
  //   closed            after leave() or abort(), or the connection to the job is lost
  //   invalid_argument  ranks or name make no sense
  //   too_large         what it brings, or all bring, is above the limits (limits.h)
  //   in_use            this rank is in this meeting already
  //   no_memory         this process may not have that many open files
  // A meeting that failed is over for all its ranks: the next call begins anew.
  Outcome<std::vector<Brought>> exchange(const Meeting& meeting, const Bring& bring, Time deadline);

  // The number of ranks that ended before they left: waits poll it. Pairs with what is told by
  // first_end(): who sees a number there finds the end here. It never goes down.
  const std::atomic<uint32_t>& trouble() const;
  // Counts in a word, until unfollow(), those of these ranks that are among ends(), and those that
  // have aborted the job; and one more, so long after the first of these ranks has left. For those
  // who look at no more than a word, a GPU's kernels for one.
  void follow(uint32_t* word, std::vector<uint32_t> ranks, Time::duration after_leave);
  void unfollow(uint32_t* word);
  // Changes whenever ranks have left, which is no trouble, unless somebody still waits for them:
  // has_ended() says who. It never goes down.
  const std::atomic<uint32_t>& departures() const;
  // The first end that this process was told of. One of the own rank: the room is gone, or has
  // dropped this process; nothing more will be told.
  std::optional<End> first_end() const;
  std::vector<End> ends() const;
  // Whether it takes part no more: it ended or left.
  bool has_ended(uint32_t rank) const;

  // From here on the end of this process is no trouble. Waits until the job was told, for a few
  // seconds at most.
  void leave();
  // Ends the job: its launcher ends all ranks, this one too, and exits with the code. Without a
  // launcher the others are told. Returns. With 0 all ends well, and the launcher says nothing.
  void abort(int code, const std::string& why);

  class Impl;
  explicit Member(std::unique_ptr<Impl> impl);  // for this library

 private:
  static Outcome<std::unique_ptr<Member>> by_other_launcher();

  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::job
