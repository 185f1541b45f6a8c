#include "held.h"

#include "held_inodes.h"

#include <vector>

#include "penstock/shards.h"

namespace penstock::client {
namespace {

// Of a thread, until the operation has entered or another try is worth it.
struct Wait {
  holds::Holding* holding = nullptr;
  holds::Holding::Waiter waiter;
  engine::Timer timer;
  engine::Loop* loop = nullptr;
  engine::Op* done = nullptr;
  bool timed = true;
};

Status wait_for(Core& core, holds::Holding& holding, InodeId inode, holds::Hold hold,
                engine::Time deadline, holds::Ticket& ticket, bool& entered) {
  Wait wait;
  wait.holding = &holding;
  wait.waiter.inode = inode;
  wait.waiter.hold = hold;
  const Status status = core.targets.wait([&](engine::Loop& loop, engine::Op& done) {
    wait.loop = &loop;
    wait.done = &done;
    wait.waiter.loop = &loop;
    wait.waiter.owner = wait.timer.owner = &wait;
    wait.waiter.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Wait>();
      if (std::exchange(self.timed, false)) self.loop->cancel(self.timer);
      self.loop->complete(*self.done, op.status);
    };
    wait.timer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Wait>();
      self.timed = false;
      // What comes in this very moment is taken.
      if (self.holding->cancel(self.waiter)) self.loop->complete(*self.done, Code::timed_out);
    };
    loop.start(wait.timer, deadline);
    holding.wait(wait.waiter);
  });
  entered = wait.waiter.entered;
  ticket = wait.waiter.ticket;
  return status;
}

// The same for many at once; each ends as soon as it has entered. All of it in one loop.
class Bringing {
 public:
  Bringing(holds::Holding& holding, const std::vector<InodeId>& inodes)
      : holding_(holding), each_(inodes.size()), left_(inodes.size()) {
    for (size_t i = 0; i < each_.size(); ++i) {
      holds::Holding::Waiter& waiter = each_[i];
      waiter.inode = inodes[i];
      waiter.hold = holds::Hold::shared;
      waiter.owner = this;
      waiter.completion = [](engine::Op& op) {
        op.owner_as<Bringing>().came(static_cast<const holds::Holding::Waiter&>(op));
      };
    }
    timer_.owner = this;
    timer_.completion = [](engine::Op& op) { op.owner_as<Bringing>().time_is_over(); };
  }

  void start(engine::Loop& loop, engine::Op& done, engine::Time deadline) {
    loop_ = &loop;
    done_ = &done;
    loop.start(timer_, deadline);
    for (holds::Holding::Waiter& waiter : each_) {
      waiter.loop = &loop;
      holding_.wait(waiter);
    }
  }

 private:
  void came(const holds::Holding::Waiter& waiter) {
    if (waiter.entered) holding_.leave(waiter.ticket);
    end(1);
  }
  void time_is_over() {
    is_timed_ = false;
    size_t given_up = 0;
    for (holds::Holding::Waiter& waiter : each_) given_up += holding_.cancel(waiter) ? 1 : 0;
    end(given_up);
  }
  // The last one ends all of it, this object as well.
  void end(size_t count) {
    ASSERT(left_ >= count);
    left_ -= count;
    if (left_ > 0 || count == 0) return;
    if (std::exchange(is_timed_, false)) loop_->cancel(timer_);
    loop_->complete(*done_, Code::ok);
  }

  holds::Holding& holding_;
  std::vector<holds::Holding::Waiter> each_;
  size_t left_;
  engine::Timer timer_;
  bool is_timed_ = true;
  engine::Loop* loop_ = nullptr;
  engine::Op* done_ = nullptr;
};

}  // namespace

void bring_holds(Core& core, std::span<const InodeId> inodes, engine::Duration most) {
  holds::Holding* const holding = core.config.holding;
  if (holding == nullptr) return;
  std::vector<InodeId> missing;
  for (const InodeId inode : inodes) {
    holds::Ticket ticket;
    if (holding->enter(inode, holds::Hold::shared, ticket)) {
      holding->leave(ticket);
    } else {
      missing.push_back(inode);
    }
  }
  if (missing.empty()) return;
  Bringing bringing(*holding, missing);
  (void)core.targets.wait([&](engine::Loop& loop, engine::Op& done) {
    bringing.start(loop, done, core.clock().now() + most);
  });
}

Status Held::begin(InodeId inode, holds::Hold hold) {
  ASSERT(!has_ticket_ && hold != holds::Hold::none);
  hold_ = hold;
  holds::Holding* const holding = inodes_.holding();
  if (holding == nullptr) return Code::ok;
  Core& core = inodes_.core();
  const engine::Time deadline = core.clock().now() + shards::limits::kHoldWait;
  while (!has_ticket_) {
    TRY(core.check_open());
    if (holding->enter(inode, hold, ticket_)) {
      has_ticket_ = true;
    } else {
      // Not to the end at once: the file system may be closed meanwhile.
      const engine::Time look = core.clock().now() + limits::kHoldLook;
      const Status waited =
          wait_for(core, *holding, inode, hold, std::min(look, deadline), ticket_, has_ticket_);
      if (!waited.ok() && (waited != Code::timed_out || look >= deadline)) return waited;
    }
  }
  return Code::ok;
}

bool Held::begin_at_once(InodeId inode, holds::Hold hold) {
  ASSERT(!has_ticket_);
  hold_ = hold;
  holds::Holding* const holding = inodes_.holding();
  if (holding == nullptr) return true;
  has_ticket_ = holding->enter(inode, hold, ticket_);
  return has_ticket_;
}

Status Held::make_fit(Inode& inode) {
  if (!has_ticket_ || inode.fit.load(std::memory_order_acquire) >= hold_) return Code::ok;
  const std::lock_guard lock(inode.control);
  return inodes_.make_fit(inode, hold_);
}

Status Held::make_fit_locked(Inode& inode) {
  return has_ticket_ ? inodes_.make_fit(inode, hold_) : Status();
}

void Held::note_loaded(Inode& inode) {
  DASSERT(inode.control.is_held());
  if (has_ticket_) inode.fit.store(hold_, std::memory_order_release);
}

bool Held::is_good() const {
  return !has_ticket_ || inodes_.holding()->is_good(ticket_);
}

void Held::end() {
  if (std::exchange(has_ticket_, false)) inodes_.holding()->leave(ticket_);
}

}  // namespace penstock::client
