// Windows that any thread may copy from without the loop. A thread that finds one holds it while it
// copies; the loop closes those that it wants to unpin, and waits until no thread holds them.
#pragma once

#include "local_file.h"

#include <atomic>
#include <functional>
#include <vector>

#include "penstock/local/held_pages.h"

namespace penstock::local {

// A slot in the table. It stays where it is for good, and is used by one window after the other.
struct alignas(64) SharedWindow {
  static constexpr uint64_t kOpen = uint64_t{1} << 63;

  std::atomic<uint64_t> state{0};  // kOpen, and how many threads hold it
  std::atomic<uint64_t> key{0};    // a hint while it is not held
  std::atomic<bool> used{false};   // since the loop has looked last
  bool taken = false;              // by a window, which may be closed, and held; the loop's
  // Written while it is not taken.
  const std::byte* data = nullptr;
  uint64_t begin = 0;  // in the file
  uint64_t end = 0;    // the window's, or the file's
  FileVersion version;
};

class SharedWindows {
 public:
  // For `count` windows and a few more. `rouse` is called when one that was closed is not held any
  // more.
  SharedWindows(size_t count, std::function<void()> rouse);

  // The loop's. Null: no slot is free.
  SharedWindow* open(uint64_t key, const std::byte* data, uint64_t begin, uint64_t end,
                     const FileVersion& version);
  // It is not found any more. The slot is the window's until give_back(), when no thread holds it.
  static void close(SharedWindow& window);
  static bool is_held(const SharedWindow& window);
  static void give_back(SharedWindow& window) {
    ASSERT(window.taken && !is_held(window));
    window.taken = false;
  }

  // Any thread. Held until release(); null: there is none.
  SharedWindow* hold(uint64_t key);
  void release(SharedWindow& window) const;

  // Of a part of a file; never 0.
  static uint64_t key_of(uint32_t file, uint64_t index) {
    return (uint64_t{file} + 1) << 40 | index;
  }

 private:
  template <class Each>
  SharedWindow* look_at(uint64_t key, const Each& each);

  std::vector<SharedWindow> slots_;  // a power of two
  const std::function<void()> rouse_;
};

}  // namespace penstock::local
