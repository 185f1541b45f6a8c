// What must outlive everything, since a kernel may still touch it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace penstock::connection {

// Never destroyed, but to be found in a debugger, and no leak. Thread safe.
template <class T>
void leave_behind(std::unique_ptr<T> what) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<T>>;
  const std::lock_guard lock(mutex);
  all->push_back(std::move(what));
}

}  // namespace penstock::connection
