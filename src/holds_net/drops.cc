#include "drops.h"

#include <utility>

namespace penstock::holds_net {

void Drops::drop(const holds::Drop& drop) {
  if (drop.keeps) return settle(drop);
  // One at a time of an inode: the file system is told that nothing runs, and the end of one lets
  // operations begin.
  const auto [found, is_first] = drops_.try_emplace(drop.inode);
  if (is_first) return begin(drop);
  found->second = drop;
}

void Drops::begin(const holds::Drop& drop) {
  ++dropping_;
  config_.keeping->drop(
      drop.inode, drop.leave,
      way_->back([this, inode = drop.inode, recall = drop.recall] { end(inode, recall); }));
}

void Drops::end(InodeId inode, holds::Stamp recall) {
  const auto found = drops_.find(inode);
  ASSERT(found != drops_.end() && dropping_ > 0);
  --dropping_;
  const std::optional<holds::Drop> next = std::exchange(found->second, std::nullopt);
  if (next) {
    begin(*next);
  } else {
    drops_.erase(found);
  }
  done_(inode, recall);
}

void Drops::settle(const holds::Drop& drop) {
  ++dropping_;
  auto done = way_->back([this, inode = drop.inode, recall = drop.recall] {
    ASSERT(dropping_ > 0);
    --dropping_;
    done_(inode, recall);
  });
  if (drop.names.empty()) {
    config_.keeping->settle(drop.inode, std::move(done));
  } else {
    config_.keeping->drop_names(drop.inode, drop.names, std::move(done));
  }
}

void Drops::drop_all(bool is_lost) {
  for (auto& [inode, next] : drops_) next.reset();
  wants_all_ = is_lost;
  is_all_dropped_ = false;
}

void Drops::go_on(bool may_begin) {
  if (wants_all_ && !is_dropping_all_ && may_begin) {
    is_dropping_all_ = true;
    const bool is_lost = *std::exchange(wants_all_, std::nullopt);
    config_.keeping->drop_all(is_lost, way_->back([this] {
      is_dropping_all_ = false;
      is_all_dropped_ = !wants_all_;
      // Its owner calls go_on() after whatever is done.
      done_(InodeId(), holds::Stamp());
    }));
  }
  if (!is_all_dropped_ || dropping_ > 0) return;
  is_all_dropped_ = false;
  all_done_();
}

}  // namespace penstock::holds_net
