#include "penstock/inodes/chain_addresses.h"

namespace penstock::inodes {

ChainAddresses::Block::Block() {
  for (std::atomic<uint64_t>& word : words) word.store(kUnknown, std::memory_order_relaxed);
}

ChainAddresses::~ChainAddresses() {
  for (const std::atomic<Block*>& block : blocks_) delete block.load(std::memory_order_relaxed);
}

std::shared_ptr<ChainAddresses> ChainAddresses::dense(std::span<const engine::Address> addresses) {
  auto made = std::make_shared<ChainAddresses>();
  for (uint32_t i = 0; i < addresses.size(); ++i) {
    const Status learned = made->learn(ChainId(i), addresses[i]);
    ASSERT(learned.ok());
  }
  ASSERT(made->size() == addresses.size());
  return made;
}

Status ChainAddresses::learn(ChainId chain, engine::Address address) {
  if (chain.value >= limits::kChainsMax) return Code::too_large;
  const uint64_t word = uint64_t{address.node.value} << 32 | address.service;
  ASSERT(word != kUnknown && unpacked(word) == address);
  const std::lock_guard lock(mutex_);
  std::atomic<Block*>& place = blocks_[chain.value / kBlock];
  Block* block = place.load(std::memory_order_relaxed);
  if (block == nullptr) {
    block = new Block;
    // Pairs with the acquire in word_of().
    place.store(block, std::memory_order_release);
  }
  std::atomic<uint64_t>& entry = block->words[chain.value % kBlock];
  if (entry.load(std::memory_order_relaxed) == kUnknown) {
    known_.push_back(chain);
    size_.store(known_.size(), std::memory_order_relaxed);
  }
  entry.store(word, std::memory_order_relaxed);
  ASSERT(known_.size() <= limits::kChainsMax && knows(chain));
  return Code::ok;
}

bool ChainAddresses::knows_range(uint32_t first, uint32_t count) const {
  if (!range_within(first, count, limits::kChainsMax)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!knows(ChainId(first + i))) return false;
  }
  return true;
}

std::vector<ChainId> ChainAddresses::all() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

}  // namespace penstock::inodes
