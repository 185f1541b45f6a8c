// Names of published memory: `<mount>/3fs-virt/iovs/<uuid>[.b<block size>]` is a symbolic link to
// `/dev/shm/<name>`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::usrbio {

using Uuid = std::array<uint8_t, 16>;

// The 16 bytes that callers have.
Uuid uuid_of(const void* id);
// A random (version 4) one.
Uuid random_uuid();
// "123e4567-e89b-42d3-a456-426614174000", the usual form in links.
std::string hyphenated(const Uuid& id);
// The same without hyphens, which some write.
std::string plain_hex(const Uuid& id);

// Where links of a mount live.
std::string link_directory(std::string_view mount);
// The link that iovcreate makes.
std::string link_path(std::string_view mount, const Uuid& id, size_t block_size);

// A link that memory may have been published under, and the block size that it states.
struct LinkCandidate {
  std::string path;
  size_t block_size = 0;
};
// What to look for, in order. With `any_block_size` also the link without one: a program that wraps
// memory may state another block size than was published, and the published one counts.
std::vector<LinkCandidate> link_candidates(std::string_view mount, const Uuid& id,
                                           size_t block_size, bool any_block_size);

// The name below /dev/shm that a link's target states, or nothing when it is anything else than a
// file directly there: links are made by others.
std::optional<std::string> shared_memory_name(std::string_view link_target);

}  // namespace penstock::usrbio
