// Heals damaged blocks of what a replica has committed, from other replicas that have committed the
// same update (decision 0052).
#pragma once

#include "shared.h"

#include <deque>
#include <list>
#include <map>

namespace penstock::chain {

// Blocks of a chunk, [first, end).
struct BlockSpan {
  uint32_t first = 0;
  uint32_t end = 0;
};
BlockSpan blocks_of(uint32_t begin, uint32_t length);

class Healing {
 public:
  // Hears whether what was damaged is damaged no more. Called once, unless the replica is
  // destroyed.
  using Ended = std::function<void(bool healed)>;

  explicit Healing(Core& core);
  ~Healing();
  Healing(const Healing&) = delete;
  Healing& operator=(const Healing&) = delete;

  // Some of these blocks are damaged. It waits until nothing is pending in the chunk; no update
  // begins meanwhile.
  void found(const store::ChainChunk& at, BlockSpan blocks, Ended ended = {});
  // The same for who sees to it by himself that no update of the chunk is committed meanwhile:
  // begins at once.
  void heal_now(const store::ChainChunk& at, BlockSpan blocks, Ended ended);

  void part_changed();
  // Nothing of it goes on: the replica does nothing any more.
  void stop();

  // From a replica that heals a chunk of its own.
  void on_copy(engine::IncomingCall& call, const wire::ChainCopyRequest& request);

 private:
  // What is done for one chunk. It is in `jobs_`, by its number, until it ends.
  struct Job;
  using Number = uint64_t;

  struct Waiting {
    store::ChainChunk at;
    BlockSpan blocks;
    std::vector<Ended> ended;
  };

  Job& make(const store::ChainChunk& at, BlockSpan blocks, std::vector<Ended> ended);
  Job* find(Number number, uint64_t round);
  template <class... Args>
  std::function<void(Args...)> when(const Job& job, void (Healing::*then)(Job&, Args...));
  bool is_locked(const store::ChainChunk& at) const;
  void begin_waiting();
  void watch(Number number, engine::Time until);
  void begin(Job& job);
  void next_step(Job& job);
  void read(Job& job);
  void ask(Job& job);
  void answered(Job& job, Task<PeerCall>& done, BlockSpan asked);
  void ask_again(Job& job);
  void write(Job& job);
  void written(Job& job, Status status);
  void end(Job& job, bool whole);

  Core& core_;
  std::map<Number, std::unique_ptr<Job>> jobs_;
  std::deque<Waiting> waiting_;
  Number last_ = 0;
  size_t locking_ = 0;  // jobs that hold or want the lock of their chunk
};

}  // namespace penstock::chain
