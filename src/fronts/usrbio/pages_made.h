// Which parts of a new iov have pages. They are made by the first operation on each part, in the
// process that uses the memory and is charged for it, and not by the agent; and where /dev/shm is
// full, that operation is refused, instead of a signal ending the program.
//
// Thread safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace penstock::usrbio {

class PagesMade {
 public:
  // [base, base + size): a mapping, whole pages.
  PagesMade(uint8_t* base, size_t size);

  // 0, or -ENOMEM where there is no memory for [offset, offset + length).
  int make(size_t offset, size_t length) {
    const size_t last = (offset + length - 1) / kPartBytes;
    for (size_t part = offset / kPartBytes; part <= last; ++part) {
      if (!is_made(part)) [[unlikely]]
        return make_parts(part, last);
    }
    return 0;
  }

 private:
  // Small enough not to make many pages that are not used, large enough for one bit to stand for
  // many.
  static constexpr size_t kPartBytes = size_t{64} << 10;

  // Relaxed: a thread that does not see it yet asks the kernel, which knows.
  bool is_made(size_t part) const {
    return (bits_[part / 64].load(std::memory_order_relaxed) >> part % 64 & 1) != 0;
  }
  int make_parts(size_t first, size_t last);

  uint8_t* const base_;
  const size_t size_;
  std::vector<std::atomic<uint64_t>> bits_;
};

}  // namespace penstock::usrbio
