// What a keeper has the file system drop: one inode at a time, and all once nothing of an old
// session runs.
#pragma once

#include "way.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "penstock/holds.h"
#include "penstock/holds_net/holds_agent.h"

namespace penstock::holds_net {

// Owner thread of the loop.
class Drops {
 public:
  // `done` hears of each that the file system has done.
  using Done = std::function<void(InodeId, holds::Stamp)>;
  // `all_done`: all is dropped, and nothing is being dropped any more.
  Drops(const HoldsAgentConfig& config, std::shared_ptr<Way> way, Done done,
        std::function<void()> all_done)
      : config_(config),
        way_(std::move(way)),
        done_(std::move(done)),
        all_done_(std::move(all_done)) {}

  void drop(const holds::Drop& drop);
  // What is being dropped is for nobody any more, and ends before all is. It begins with go_on(),
  // and another takes the place of one that has not begun.
  void drop_all(bool is_lost);
  // `may_begin`: nothing runs that is void.
  void go_on(bool may_begin);
  bool is_idle() const { return dropping_ == 0 && !is_dropping_all_; }

 private:
  void begin(const holds::Drop& drop);
  void end(InodeId inode, holds::Stamp recall);
  void settle(const holds::Drop& drop);

  const HoldsAgentConfig& config_;
  const std::shared_ptr<Way> way_;
  const Done done_;
  const std::function<void()> all_done_;
  // Inodes that are being dropped, and what is to be dropped of each next.
  std::map<InodeId, std::optional<holds::Drop>> drops_;
  size_t dropping_ = 0;  // that the file system has not done
  std::optional<bool> wants_all_;
  bool is_dropping_all_ = false;
  bool is_all_dropped_ = false;
};

}  // namespace penstock::holds_net
