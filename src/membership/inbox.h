// What other loops have to say to a member.
#pragma once

#include "question.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "penstock/chain.h"
#include "penstock/membership/limits.h"

namespace penstock::membership {

// Thread safe. Lives as long as anything of it is on its way to the loop.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  struct Content {
    std::vector<std::pair<TargetId, chain::Report>> reports;
    bool refresh = false;
  };
  // `read` is called in the loop, until close().
  Inbox(engine::Loop& loop, std::function<void(Content)> read)
      : loop_(loop), read_(std::move(read)) {}

  void put(TargetId reporter, const chain::Report& report) {
    {
      const std::lock_guard lock(mutex_);
      // More of them are said again by those who make them.
      if (content_.reports.size() == limits::kReportsPerHeartbeat) return;
      content_.reports.emplace_back(reporter, report);
      if (std::exchange(is_posted_, true)) return;
    }
    post();
  }
  void refresh() {
    {
      const std::lock_guard lock(mutex_);
      content_.refresh = true;
      if (std::exchange(is_posted_, true)) return;
    }
    post();
  }
  // In the loop: nothing is read any more.
  void close() { read_ = nullptr; }

 private:
  void post() {
    auto& posted = Task<engine::Op>::make([self = shared_from_this()](Task<engine::Op>&) {
      Content content;
      {
        const std::lock_guard lock(self->mutex_);
        content = std::exchange(self->content_, {});
        self->is_posted_ = false;
      }
      if (self->read_) self->read_(std::move(content));
    });
    loop_.complete_remote(posted, Code::ok);
  }

  engine::Loop& loop_;
  std::function<void(Content)> read_;  // of the loop's thread
  engine::Mutex mutex_;
  Content content_;
  bool is_posted_ = false;
};

}  // namespace penstock::membership
