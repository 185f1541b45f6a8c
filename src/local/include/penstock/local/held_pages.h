// Pages of a local file that stay pinned as long as a thread holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::local {

class SharedWindows;
struct SharedWindow;

// Any thread's; given back before its source goes. No processor touches the bytes: the file may
// have become shorter.
class HeldPages {
 public:
  HeldPages() = default;
  HeldPages(const SharedWindows& windows, SharedWindow& window, const std::byte* data,
            uint64_t length)
      : windows_(&windows), window_(&window), data_(data), length_(length) {}
  HeldPages(HeldPages&& other) noexcept
      : windows_(other.windows_),
        window_(std::exchange(other.window_, nullptr)),
        data_(other.data_),
        length_(other.length_) {}
  HeldPages& operator=(HeldPages&&) = delete;
  ~HeldPages();

  explicit operator bool() const { return window_ != nullptr; }
  const std::byte* data() const { return data_; }
  uint64_t length() const { return length_; }

 private:
  const SharedWindows* windows_ = nullptr;
  SharedWindow* window_ = nullptr;
  const std::byte* data_ = nullptr;
  uint64_t length_ = 0;
};

}  // namespace penstock::local
