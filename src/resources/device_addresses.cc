#include "penstock/resources/device_addresses.h"

#include <map>
#include <mutex>

namespace penstock::resources {
namespace {

// Above all that a kernel maps for a process that does not ask for it by name (47 bits on x86-64,
// 48 or 52 on AArch64), and below what AArch64 leaves out of an address.
constexpr uint64_t kFirst = uint64_t{1} << 53;
constexpr uint64_t kEnd = uint64_t{1} << 55;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSizeMax = uint64_t{1} << 40;

std::mutex ranges_mutex;
std::map<uint64_t, uint64_t> ranges;  // in use: first page, and the page behind the last
uint64_t next_page = kFirst;          // where to look

// With the mutex held. 0: there are none.
uint64_t take_pages(uint64_t length) {
  // Once around, from where the last ones were taken: mostly there is room at once.
  for (size_t looks = ranges.size() + 2; looks > 0; --looks) {
    if (length > kEnd - next_page) next_page = kFirst;
    auto after = ranges.upper_bound(next_page);
    if (after != ranges.begin() && std::prev(after)->second > next_page) {
      next_page = std::prev(after)->second;
      continue;
    }
    if (after != ranges.end() && after->first - next_page < length) {
      next_page = after->second;
      continue;
    }
    const uint64_t first = next_page;
    next_page += length;
    ranges[first] = next_page;
    return first;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<DeviceAddresses>> DeviceAddresses::take(uint64_t offset, uint64_t size) {
  ASSERT(size > 0 && size <= kSizeMax);
  const uint64_t into_page = offset % kPage;
  const std::lock_guard lock(ranges_mutex);
  const uint64_t first = take_pages(align_up(into_page + size, kPage));
  if (first == 0) return Code::busy;
  auto* const begin = reinterpret_cast<std::byte*>(first + into_page);
  return std::unique_ptr<DeviceAddresses>(new DeviceAddresses({begin, size}));
}

DeviceAddresses::~DeviceAddresses() {
  const uint64_t begin = reinterpret_cast<uintptr_t>(bytes_.data());
  const std::lock_guard lock(ranges_mutex);
  const bool was_taken = ranges.erase(align_down(begin, kPage)) == 1;
  ASSERT(was_taken);
}

}  // namespace penstock::resources
