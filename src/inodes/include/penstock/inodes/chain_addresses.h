// Where chains are served.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "penstock/engine.h"
#include "penstock/inodes/limits.h"

namespace penstock::inodes {

// The address to which calls for the chunks of a chain go: a target's, where the chain is its one
// copy, or the chain's own (decision 0046). Chains become known at any time, and are never
// forgotten: whoever has seen that a chain is known may count on its address. Look-ups are lock
// free, for any thread; they cost two loads. Outlives the file systems that use it.
class ChainAddresses {
 public:
  ChainAddresses() = default;
  ~ChainAddresses();
  ChainAddresses(const ChainAddresses&) = delete;
  ChainAddresses& operator=(const ChainAddresses&) = delete;

  // Chain i is served at addresses[i].
  static std::shared_ptr<ChainAddresses> dense(std::span<const engine::Address> addresses);

  // From now on the chain is served there; calls that are under way are not affected. Thread safe.
  // too_large if the number is kChainsMax or more.
  Status learn(ChainId chain, engine::Address address);

  // nullopt if it is not known.
  std::optional<engine::Address> find(ChainId chain) const {
    const uint64_t word = word_of(chain);
    if (word == kUnknown) return std::nullopt;
    return unpacked(word);
  }
  // Of a chain that is known.
  engine::Address at(ChainId chain) const {
    const uint64_t word = word_of(chain);
    ASSERT(word != kUnknown);
    return unpacked(word);
  }
  bool knows(ChainId chain) const { return word_of(chain) != kUnknown; }
  // All of the range, which may be any numbers.
  bool knows_range(uint32_t first, uint32_t count) const;

  // All that are known at this moment, in the order in which they became so. Thread safe.
  std::vector<ChainId> all() const;
  // How many there are.
  size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kBlock = 1024;
  static constexpr size_t kBlocks = limits::kChainsMax / kBlock;
  static_assert(limits::kChainsMax % kBlock == 0);
  struct Block {
    Block();
    std::array<std::atomic<uint64_t>, kBlock> words;
  };
  // No node has this number and serves that many services.
  static constexpr uint64_t kUnknown = UINT64_MAX;

  static engine::Address unpacked(uint64_t word) {
    return {NodeId(static_cast<uint32_t>(word >> 32)), static_cast<uint32_t>(word)};
  }
  uint64_t word_of(ChainId chain) const {
    if (chain.value >= limits::kChainsMax) return kUnknown;
    // Acquire pairs with the release in learn(): the block's words are made.
    const Block* block = blocks_[chain.value / kBlock].load(std::memory_order_acquire);
    // A word says all by itself.
    return block == nullptr ? kUnknown
                            : block->words[chain.value % kBlock].load(std::memory_order_relaxed);
  }

  std::array<std::atomic<Block*>, kBlocks> blocks_{};  // each is made once, and goes with this
  std::atomic<size_t> size_ = 0;
  mutable engine::Mutex mutex_;
  std::vector<ChainId> known_;  // under the mutex, as is every change of blocks and words
};

}  // namespace penstock::inodes
