// POSIX shared memory: files in /dev/shm and their mappings.
#pragma once

#include "link_name.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/base.h"

namespace penstock::usrbio {

// A mapping with one owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, size_t size) : base_(static_cast<uint8_t*>(base)), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { unmap(); }

  uint8_t* base() const { return base_; }
  size_t size() const { return size_; }
  void unmap();

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
};

struct SharedMemory {
  std::string name;  // below /dev/shm
  UniqueFd fd;
  Mapping mapping;
};

// Files of this name prefix are ours: each process that uses one holds a shared lock (flock) on it,
// so that what a killed program has left behind can be told from what is in use.
inline constexpr std::string_view kMemoryPrefix = "penstock-iov-";

// Removes memory of the calling user's that no process uses any more, and the links to it from
// `link_directory`. Returns how many files it removed.
size_t remove_abandoned_memory(const std::string& link_directory);

// New memory of `size` bytes, rounded up to pages, all of it there: what is missing is reported now
// as ENOMEM or ENOSPC, not by a signal later. Errors here and below are positive errnos.
Result<SharedMemory, int> create_shared_memory(const std::string& name, size_t size, int numa);

// Opens `/dev/shm/<name>` for reading and writing, and locks it as in use if it is ours. EACCES
// unless it belongs to the calling user (or that is root), EINVAL unless it is a regular file of at
// least `size` bytes.
Result<UniqueFd, int> open_shared_memory(const std::string& name, size_t size);

Result<Mapping, int> map_shared_memory(int fd, size_t size);

// ENOENT is success.
// Where it lies in the file system.
std::string path_of_memory(const std::string& name);
void unlink_shared_memory(const std::string& name);

// Asks for pages of [base, base + size) from this NUMA node first. Without effect for a negative
// number, a node that is not there, or pages that exist already.
void prefer_numa_node(void* base, size_t size, int numa);

// What a published link leads to.
struct Published {
  std::string link;
  size_t block_size = 0;
  UniqueFd fd;
};
// Follows the links of link_candidates() to memory of the calling user's. ENOENT: there is none.
Result<Published, int> open_published(std::string_view mount, const Uuid& id, size_t size,
                                      size_t block_size, bool any_block_size);

}  // namespace penstock::usrbio
