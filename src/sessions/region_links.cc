#include "penstock/sessions/region_links.h"

namespace penstock::sessions {

std::shared_ptr<RegionLinks> NodeLinks::find() const {
  const std::lock_guard lock(mutex_);
  return links_;
}

std::shared_ptr<RegionLinks> NodeLinks::find_or_make(const Make& make) {
  const std::lock_guard lock(mutex_);
  if (links_ == nullptr) links_ = make();
  ASSERT(links_ != nullptr);
  return links_;
}

}  // namespace penstock::sessions
