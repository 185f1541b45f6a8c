// Brings the syncing replica up to what the commit point has: chunk by chunk, in the order of keys.
#pragma once

#include "shared.h"

#include <map>
#include <set>

namespace penstock::chain {

class Repair {
 public:
  explicit Repair(Core& core) : core_(core) {}
  ~Repair() { stop(); }

  void part_changed();
  // The version in which it began; 0: there is nobody to be repaired.
  uint64_t began() const { return began_; }
  // The syncing one knows nothing of it.
  void begin_anew();
  // The syncing one has adopted this version.
  void start();

  // The replica has failed, or goes: nothing is copied any more.
  void stop();

  // An update of this chunk begins: whether it goes to the syncing one, too. What does not is
  // looked at when its turn comes.
  bool begin(const store::ChainChunk& at);

 private:
  void next_list();
  void list_there(std::vector<store::ListEntry> here);
  void merge(const std::vector<store::ListEntry>& here,
             const std::vector<wire::ListedChunk>& there);
  void next_chunk();
  void compare(const store::ChainChunk& at, const UpdateName& here);
  void copy(const store::ChainChunk& at, bool was_healed = false);
  bool has_turn(const store::ChainChunk& at, uint64_t bytes);
  void leave(const store::ChainChunk& at);
  void read_copy(const store::ChainChunk& at, const store::ChunkState& state, bool was_healed,
                 const Pools::Held& held);
  void send(const store::ChainChunk& at, const store::ChunkState& state,
            std::vector<std::byte> bytes, const std::vector<uint32_t>& damaged,
            const Pools::Held& held);
  void list_again();
  void chunk_done(const store::ChainChunk& at);
  void all_done();

  Core& core_;
  uint64_t began_ = 0;
  bool finished_ = false;
  // With whom it stands where it does.
  TargetId follower_;
  uint64_t follower_incarnation_ = 0;
  // Chunks below it are the same there, and get every update.
  store::ChainChunk cursor_;
  // To be compared; and the names that the other has, up to `horizon_`.
  std::set<store::ChainChunk> to_do_;
  RepairPace::Turn turn_;  // while a chunk is copied
  std::map<store::ChainChunk, UpdateName> there_;
  std::optional<store::ChainChunk> horizon_;  // none: the other has nothing beyond
};

}  // namespace penstock::chain
