#include "penstock/cache_view/view_hold.h"

namespace penstock::cache_view {

bool ViewHold::Held::has_ended(engine::Time turn) {
  if (asked_ != turn) {
    asked_ = turn;
    ended_ = view_->ended();
  }
  return ended_;
}

void ViewHold::renew(uint64_t serial) {
  if (newest_ != nullptr && newest_->uses_ == 0) held_.erase(serial_);
  serial_ = serial;
  newest_ = nullptr;
  std::shared_ptr<CacheView> view = map_.view();
  if (view == nullptr) return;
  newest_ = &held_[serial];
  newest_->view_ = std::move(view);
  newest_->serial_ = serial;
}

ViewHold::Held* ViewHold::use() {
  ASSERT(newest_ != nullptr);
  ++newest_->uses_;
  return newest_;
}

void ViewHold::let_go(Held* held) {
  ASSERT(held->uses_ > 0);
  if (--held->uses_ == 0 && held != newest_) held_.erase(held->serial_);
}

}  // namespace penstock::cache_view
