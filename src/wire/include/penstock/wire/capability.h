// What a node may do with chunks, as whoever has the names has signed it (decision 0066). Format:
// docs/formats/capabilities.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "penstock/base.h"
#include "penstock/wire/agent_session.h"

namespace penstock::wire {

inline constexpr uint16_t kCapabilityVersion = 1;
inline constexpr size_t kSignatureBytes = 64;  // Ed25519

enum CapabilityRights : uint8_t {
  kMayRead = 1,
  kMayWrite = 2,  // and read what is around
};
inline constexpr uint8_t kCapabilityRights = kMayRead | kMayWrite;

struct Capability {
  uint16_t version = kCapabilityVersion;
  uint8_t rights = 0;  // a sum of CapabilityRights
  std::array<uint8_t, 5> reserved{};
  uint32_t key = 0;  // by which it is signed: a number of the map
  // Chunks of these files, on these chains.
  uint32_t chain_first = 0;
  uint32_t chain_last = 0;
  uint32_t reserved_too = 0;
  uint64_t inode_first = 0;
  uint64_t inode_last = 0;
  uint64_t session = 0;  // AgentSession::word() of whose it is
  uint64_t judged = 0;   // restrictions up to that version of the map are in it
  std::array<uint8_t, kSignatureBytes> signature{};  // of all before

  bool is_of_all() const { return inode_first == 1 && inode_last == UINT64_MAX; }
  bool has(InodeId inode, ChainId chain) const {
    return inode.value >= inode_first && inode.value <= inode_last && chain.value >= chain_first &&
           chain.value <= chain_last;
  }
  // What the signature is of.
  Bytes signed_bytes() const;
};
static_assert(sizeof(Capability) == 120 && offsetof(Capability, signature) == 56);
static_assert(std::is_trivially_copyable_v<Capability> &&
              std::has_unique_object_representations_v<Capability>);

inline Bytes Capability::signed_bytes() const {
  return Bytes(reinterpret_cast<const std::byte*>(this), offsetof(Capability, signature));
}

// Whether it can be one, by itself. Whether it is signed is another question. One for some files is
// for one.
constexpr bool is_good(const Capability& one) {
  const bool is_of_files =
      one.inode_first != 0 &&
      (one.inode_first == one.inode_last || (one.inode_first == 1 && one.inode_last == UINT64_MAX));
  return one.version == kCapabilityVersion && one.rights != 0 &&
         (one.rights & ~kCapabilityRights) == 0 && one.reserved == decltype(one.reserved){} &&
         one.reserved_too == 0 && one.key != 0 && one.chain_first <= one.chain_last &&
         is_of_files && one.session != 0 && AgentSession::is_word(one.session);
}

// Foreign bytes: wrong_version for a later version, bad_message for what cannot be one.
inline Result<Capability> decode_capability(Bytes bytes) {
  Capability one;
  if (bytes.size() < sizeof one.version) return Code::bad_message;
  std::memcpy(&one.version, bytes.data(), sizeof one.version);
  if (one.version > kCapabilityVersion) return Code::wrong_version;
  if (bytes.size() != sizeof one) return Code::bad_message;
  std::memcpy(&one, bytes.data(), sizeof one);
  if (!is_good(one)) return Code::bad_message;
  return one;
}

}  // namespace penstock::wire
