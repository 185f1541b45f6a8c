// FarCard: this process's share of an RDMA device, for memory of PEs on other nodes: what of its
// memory the device knows, buffers, and work that is under way.
#pragma once

#include "far_stream.h"

#include <memory>
#include <unordered_map>
#include <vector>

#include "penstock/engine.h"
#include "penstock/verbs.h"

namespace penstock::symm {

class FarPair;

// One piece of a put or get; see FarPair.
struct FarOp;

// A work request that has not completed.
struct FarWork {
  enum class Kind : uint8_t { none, message, credit, trial, bind, piece };
  FarPair* pair = nullptr;
  Kind kind = Kind::none;
  bool has_slot = false;
  bool is_lent = false;  // a piece from or to symmetric memory itself
  uint32_t slot = 0;
  uint32_t bytes = 0;  // of a piece
  FarOp* op = nullptr;
  std::byte* copy_to = nullptr;  // where a piece that was read belongs
  uint32_t serial = 0;
};

// One thread at a time. Its pairs end before it.
class FarCard {
 public:
  struct Options {
    std::unique_ptr<verbs::Provider> provider;
    FarSegments segments;
    uint64_t pinned_bytes_max = 0;  // of them
    const engine::Clock* clock = nullptr;
    uint64_t part_bytes = limits::kFarPart;  // the same at all PEs
  };
  // no_memory: not even its buffers can be registered.
  static Result<std::unique_ptr<FarCard>> open(Options options);
  ~FarCard();
  FarCard(const FarCard&) = delete;
  FarCard& operator=(const FarCard&) = delete;

  const std::string& name() const { return provider_->facts().name; }
  // Takes what has completed; whether something has. Whose pair was touched by it is told once.
  bool poll();
  std::vector<uint32_t> take_touched() { return std::exchange(touched_, {}); }
  // As verbs::Provider's.
  bool arm() { return touched_.empty() && provider_->arm(); }
  void disarm() { provider_->disarm(); }
  int wake_descriptor() const { return provider_->wake_descriptor(); }

 private:
  friend class FarPair;
  struct Slot {
    std::byte* at;
    verbs::MemoryId memory;
    bool is_buffer;  // of limits::kFarBuffer, else of kFarMessageBytes
  };
  struct Part {
    enum class State : uint8_t { unknown, registered, refused };
    State state = State::unknown;
    verbs::MemoryId memory{};
  };
  struct Block {
    MutableBytes bytes;
    verbs::MemoryId memory;
  };
  struct Local {
    verbs::MemoryId memory;
    uint64_t bytes;
  };

  explicit FarCard(Options options);

  // For FarPair.
  verbs::Provider& provider() { return *provider_; }
  engine::Time now() const { return clock_->now(); }
  Status enter(FarPair* pair, verbs::QueuePairId id);  // too many, or no memory: not ok
  // The queue pair is destroyed: what was under way is forgotten.
  void leave(FarPair* pair, verbs::QueuePairId id);
  uint64_t part_bytes() const { return part_bytes_; }
  uint32_t parts(uint8_t segment) const;
  MutableBytes bytes_of_part(uint8_t segment, uint32_t part) const;
  // Registers it, if that was not tried. Nothing: it cannot be.
  std::optional<verbs::MemoryId> part(uint8_t segment, uint32_t part);
  // The part of the symmetric memory that begins there; nothing: it is other memory, or not known.
  std::optional<Local> local(const std::byte* at, uint64_t bytes);
  std::optional<uint32_t> take_slot(bool is_buffer);
  void release_slot(uint32_t slot);
  const Slot& slot(uint32_t number) const { return slots_[number]; }
  // A message in it was taken.
  void receive_again(uint32_t slot);
  Status post(verbs::QueuePairId id, verbs::WorkRequest request, FarWork work);
  void touch(uint32_t pe) { touched_.push_back(pe); }

  Status add_block(uint64_t slot_bytes, uint32_t count, bool is_buffer);
  Status post_receive(uint32_t slot);
  void received(const verbs::Completion& completion);
  void completed(const verbs::Completion& completion);

  const std::unique_ptr<verbs::Provider> provider_;
  const FarSegments segments_;
  const uint64_t pinned_bytes_max_;
  const uint64_t part_bytes_;
  const engine::Clock* const clock_;
  uint64_t pinned_bytes_ = 0;
  std::array<std::vector<Part>, kSegments> parts_;
  std::vector<Block> blocks_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_messages_;
  std::vector<uint32_t> free_buffers_;
  uint32_t receives_ = 0;         // that are posted, or hold a message
  uint32_t receives_wanted_ = 0;  // by the pairs that there are
  std::unordered_map<uint32_t, FarPair*> pairs_;
  std::vector<FarWork> works_;
  std::vector<uint32_t> free_works_;
  std::vector<uint32_t> touched_;
};

}  // namespace penstock::symm
