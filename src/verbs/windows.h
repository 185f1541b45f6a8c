// The windows of a loop. One is made when it is needed, and used again and again: the keys of one
// window repeat after 256 binds, so who gives one back says that nobody has its last key any more.
#pragma once

#include <vector>

#include "penstock/verbs/provider.h"

namespace penstock::verbs {

// Owner thread of the loop only.
class Windows {
 public:
  explicit Windows(Provider& provider) : provider_(provider) {}
  // All were given back or destroyed.
  ~Windows() {
    ASSERT(free_.size() == made_);
    for (const Window& window : free_) provider_.destroy_window(window.id);
  }

  // busy: all there may be are taken; or what the device has against another.
  Result<Window> take() {
    if (free_.empty()) {
      if (made_ == limits::kWindowsMax) return Code::busy;
      TRY_ASSIGN(const Window made, provider_.create_window());
      ++made_;
      free_.push_back(made);
    }
    Window window = free_.back();
    free_.pop_back();
    window.key = next_key(window.key);
    return window;
  }
  // It is not bound.
  void give_back(const Window& window) { free_.push_back(window); }
  // Its queue pair was broken.
  void destroy(const Window& window) {
    provider_.destroy_window(window.id);
    --made_;
  }

 private:
  Provider& provider_;
  std::vector<Window> free_;
  uint32_t made_ = 0;  // that have not been destroyed
};

}  // namespace penstock::verbs
