#include "pages_made.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>

namespace penstock::usrbio {

PagesMade::PagesMade(uint8_t* base, size_t size)
    : base_(base), size_(size), bits_((size + kPartBytes - 1) / kPartBytes / 64 + 1) {}

// Those that are not made yet, a run at a time.
int PagesMade::make_parts(size_t first, size_t last) {
  for (size_t part = first; part <= last;) {
    if (is_made(part)) {
      ++part;
      continue;
    }
    size_t end = part + 1;
    while (end <= last && !is_made(end)) ++end;
    const size_t begin = part * kPartBytes;
    const size_t bytes = std::min(end * kPartBytes, size_) - begin;
    int result = 0;
    do {
      result = ::madvise(base_ + begin, bytes, MADV_POPULATE_WRITE);
    } while (result != 0 && errno == EINTR);
    // A kernel that does not know the request makes pages when they are touched.
    if (result != 0 && errno != EINVAL) return -ENOMEM;
    for (; part < end; ++part) {
      bits_[part / 64].fetch_or(uint64_t{1} << part % 64, std::memory_order_relaxed);
    }
  }
  return 0;
}

}  // namespace penstock::usrbio
