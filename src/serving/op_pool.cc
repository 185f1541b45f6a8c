#include "served_ring.h"

#include <algorithm>
#include <memory>
#include <sys/mman.h>

namespace penstock::serving {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kFirst = kPage / sizeof(RingOp);
static_assert(kFirst > 0 && kPage < limits::kRingHeapBytes);

}  // namespace

OpPool::~OpPool() {
  for (Block& block : blocks_) {
    std::destroy(block.ops.begin(), block.ops.end());
    ::munmap(block.ops.data(), block.bytes);
  }
}

std::span<RingOp> OpPool::grow(const std::shared_ptr<resources::Account>& account) {
  if (!may_grow()) return {};
  const uint32_t count = std::min(std::max(kFirst, size_), most_ - size_);
  Block block;
  block.bytes = align_up(count * sizeof(RingOp), kPage);
  refused_ = true;
  if (!blocks_.empty()) {
    Result<resources::Charge> heap =
        resources::Charge::take(account, resources::Resource::heap_bytes, block.bytes);
    Result<resources::Charge> mapping =
        resources::Charge::take(account, resources::Resource::mappings, 1);
    if (!heap || !mapping) return {};
    block.heap = std::move(*heap);
    block.mapping = std::move(*mapping);
  }
  // Not from the heap, which keeps what it once had.
  void* const base =
      ::mmap(nullptr, block.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return {};
  refused_ = false;
  auto* const ops = static_cast<RingOp*>(base);
  std::uninitialized_value_construct_n(ops, count);
  block.ops = {ops, count};
  size_ += count;
  ASSERT(size_ <= most_ && block.ops.size_bytes() <= block.bytes);
  blocks_.push_back(std::move(block));
  return blocks_.back().ops;
}

}  // namespace penstock::serving
