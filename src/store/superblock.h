// What says that a directory and a database are one target: the file `target` in the directory and
// a record in the database that carry the same identity (docs/formats/store.md).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/base.h"

namespace penstock::store {

inline constexpr uint32_t kFormatVersion = 4;
// From here on formats can be converted: superblock and identity differ in their version only.
inline constexpr uint32_t kOldFormatVersion = 1;
inline constexpr const char* kSuperblockName = "target";
// In the database. Sorts after all block maps.
inline constexpr std::string_view kIdentityKey = "T";

struct Identity {
  TargetId id;
  std::array<uint8_t, 16> uuid{};
  friend bool operator==(const Identity&, const Identity&) = default;
};

std::string encode_superblock(const Identity& identity, uint32_t version = kFormatVersion);
// wrong_version for a file of this kind but of another version, else corrupt.
Result<Identity> decode_superblock(std::string_view text, uint32_t version = kFormatVersion);

std::string encode_identity(const Identity& identity, uint32_t version = kFormatVersion);
Result<Identity> decode_identity(std::string_view record, uint32_t version = kFormatVersion);

}  // namespace penstock::store
