#include "shared_windows.h"

#include "limits.h"

#include <algorithm>
#include <bit>

namespace penstock::local {

SharedWindows::SharedWindows(size_t count, std::function<void()> rouse)
    : slots_(std::bit_ceil(std::max<size_t>(2 * count, limits::kSharedWindowTries))),
      rouse_(std::move(rouse)) {}

// Calls `each` with the slots where the key may be, until it takes one.
template <class Each>
SharedWindow* SharedWindows::look_at(uint64_t key, const Each& each) {
  const uint64_t hash = mix64(key);
  for (uint64_t i = 0; i < limits::kSharedWindowTries; ++i) {
    SharedWindow& slot = slots_[(hash + i) & (slots_.size() - 1)];
    if (each(slot)) return &slot;
  }
  return nullptr;
}

SharedWindow* SharedWindows::open(uint64_t key, const std::byte* data, uint64_t begin, uint64_t end,
                                  const FileVersion& version) {
  ASSERT(key != 0 && begin <= end);
  return look_at(key, [&](SharedWindow& slot) {
    // Acquire pairs with the last release(). A thread that tries a slot which is not open lets go
    // of it without a look at the rest.
    if (slot.taken || slot.state.load(std::memory_order_acquire) != 0) return false;
    slot.taken = true;
    slot.data = data;
    slot.begin = begin;
    slot.end = end;
    slot.version = version;
    slot.used.store(false, std::memory_order_relaxed);
    slot.key.store(key, std::memory_order_relaxed);
    // Release: a thread that sees it open sees its fields.
    slot.state.fetch_add(SharedWindow::kOpen, std::memory_order_release);
    return true;
  });
}

void SharedWindows::close(SharedWindow& window) {
  window.key.store(0, std::memory_order_relaxed);
  const uint64_t state = window.state.fetch_sub(SharedWindow::kOpen, std::memory_order_relaxed);
  ASSERT(window.taken && (state & SharedWindow::kOpen) != 0);
}

bool SharedWindows::is_held(const SharedWindow& window) {
  return window.state.load(std::memory_order_acquire) != 0;
}

SharedWindow* SharedWindows::hold(uint64_t key) {
  return look_at(key, [&](SharedWindow& slot) {
    if (slot.key.load(std::memory_order_relaxed) != key) return false;
    const uint64_t state = slot.state.fetch_add(1, std::memory_order_acquire);
    if ((state & SharedWindow::kOpen) != 0 && slot.key.load(std::memory_order_relaxed) == key) {
      if (!slot.used.load(std::memory_order_relaxed)) {
        slot.used.store(true, std::memory_order_relaxed);
      }
      return true;
    }
    release(slot);
    return false;
  });
}

void SharedWindows::release(SharedWindow& window) const {
  // Release: the copy from there has been made.
  const uint64_t state = window.state.fetch_sub(1, std::memory_order_release);
  ASSERT((state & ~SharedWindow::kOpen) > 0);
  if (state == 1) rouse_();
}

HeldPages::~HeldPages() {
  if (window_ != nullptr) windows_->release(*window_);
}

}  // namespace penstock::local
