// Strong types for ids, so that an inode id cannot be passed where a session id belongs.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace penstock {

template <class Tag, class Value>
struct Id {
  Value value = 0;

  constexpr Id() = default;
  constexpr explicit Id(Value v) : value(v) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using InodeId = Id<struct InodeIdTag, uint64_t>;      // never reused; 0 is no inode, 1 the root
using NodeId = Id<struct NodeIdTag, uint32_t>;        // a machine of the cluster; 0 is none
using TargetId = Id<struct TargetIdTag, uint32_t>;    // one chunk store on one disk
using ChainId = Id<struct ChainIdTag, uint32_t>;      // an ordered list of targets
using SessionId = Id<struct SessionIdTag, uint64_t>;  // unique in the life of an agent
using RegionId = Id<struct RegionIdTag, uint32_t>;    // unique in the life of a session
using HandleId = Id<struct HandleIdTag, uint32_t>;    // an open file of a session

// Chains with lower ids are targets' own, of one copy each (chunks::chain_of()); from here on a
// controller makes them.
inline constexpr ChainId kFirstSharedChain{1024};

// One chunk of one file. Chunks are numbered from 0 in file order.
struct ChunkId {
  InodeId inode;
  uint32_t index = 0;

  friend constexpr auto operator<=>(const ChunkId&, const ChunkId&) = default;
};

// A good 64-bit mixer (the finaliser of SplitMix64, Steele et al. 2014). Its values are part of
// formats where stated, so it never changes.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace penstock

template <class Tag, class Value>
struct std::hash<penstock::Id<Tag, Value>> {
  size_t operator()(penstock::Id<Tag, Value> id) const noexcept {
    return static_cast<size_t>(penstock::mix64(id.value));
  }
};

template <>
struct std::hash<penstock::ChunkId> {
  size_t operator()(penstock::ChunkId id) const noexcept {
    return static_cast<size_t>(penstock::mix64(penstock::mix64(id.inode.value) ^ id.index));
  }
};
