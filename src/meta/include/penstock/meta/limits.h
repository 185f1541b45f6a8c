// Bounds of this library that its users see.
#pragma once

#include <cstdint>

namespace penstock::meta {

// More copies than this are a mistake in typing.
inline constexpr uint32_t kCopiesMax = 8;
// Chains of a list: some hundred bytes of an inode's record. A file over more chains has a range.
inline constexpr uint32_t kListedChainsMax = 64;
// Days that something removed is kept: a hundred years; more are a mistake in typing.
inline constexpr uint32_t kTrashDaysMax = 36'500;

}  // namespace penstock::meta
