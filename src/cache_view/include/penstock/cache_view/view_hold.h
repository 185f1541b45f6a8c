// How a thread holds the node cache: the newest view of it, and those before it as long as what was
// found in them is in use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "penstock/base.h"
#include "penstock/cache_view/cache_map.h"
#include "penstock/engine.h"

namespace penstock::cache_view {

// One thread at a time.
class ViewHold {
 public:
  // A view that is held.
  class Held {
   public:
    CacheView& view() const { return *view_; }
    // Whether the agent is gone, as the view said when it was first asked in the loop's turn that
    // began at `turn`: copies that are asked about in one turn ended before, so that one look at
    // the clock is enough for all of them.
    bool has_ended(engine::Time turn);

   private:
    friend class ViewHold;
    std::shared_ptr<CacheView> view_;
    uint64_t serial_ = 0;
    uint64_t uses_ = 0;
    engine::Time asked_{};
    bool ended_ = false;
  };

  explicit ViewHold(CacheMap& map) : map_(map) {}
  ViewHold(const ViewHold&) = delete;
  ViewHold& operator=(const ViewHold&) = delete;

  CacheMap& map() const { return map_; }
  // The newest view; null where there is no cache, or not yet. One that is not the newest any more
  // and of which nothing is in use is let go of.
  CacheView* newest() {
    const uint64_t serial = map_.serial();
    if (serial != serial_) [[unlikely]]
      renew(serial);
    return newest_ != nullptr ? newest_->view_.get() : nullptr;
  }
  // What newest() has last returned, without a look for another one.
  CacheView* known() const { return newest_ != nullptr ? newest_->view_.get() : nullptr; }
  // Whether newest() would find another one. One that is gone keeps its memory as long as it is
  // held. Any thread that orders itself behind the one of newest().
  bool is_old() const { return map_.serial() != serial_; }

  // Something of the view that newest() has last returned is in use, until let_go() of it.
  Held* use();
  void let_go(Held* held);

  // This thread's own notes on its hits.
  CacheView::Hits& hits() { return hits_; }

 private:
  void renew(uint64_t serial);

  CacheMap& map_;
  std::map<uint64_t, Held> held_;  // by the map's serial: the newest, and those still in use
  uint64_t serial_ = 0;            // of the newest
  Held* newest_ = nullptr;
  CacheView::Hits hits_;
};

}  // namespace penstock::cache_view
