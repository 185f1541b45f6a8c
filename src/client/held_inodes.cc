#include "held_inodes.h"

#include <algorithm>

namespace penstock::client {
namespace {

struct Job : ListNode {
  std::function<void()> run;
};

}  // namespace

HeldInodes::HeldInodes(Core& core, InodeLoader& loader, Notifier& notifier)
    : core_(core), loader_(loader), notifier_(notifier) {
  if (core_.config.holding == nullptr) return;
  pool_ = std::make_unique<engine::WorkerPool>(
      engine::WorkerOptions{.name = "penstock-hold", .count_max = limits::kHoldThreads},
      [](ListNode& item) {
        const std::unique_ptr<Job> job(static_cast<Job*>(&item));
        job->run();
      });
}

HeldInodes::~HeldInodes() {
  stop();
}

void HeldInodes::stop() {
  if (pool_ == nullptr) return;
  pool_->stop([](ListNode& item) {
    const std::unique_ptr<Job> job(static_cast<Job*>(&item));
    job->run();
  });
}

// After the end there is no thread for it: whoever asks does it himself.
void HeldInodes::add(std::function<void()> run) {
  auto job = std::make_unique<Job>();
  job->run = std::move(run);
  if (pool_->submit(*job).ok()) {
    static_cast<void>(job.release());  // the pool's now
  } else {
    job->run();
  }
}

Status HeldInodes::make_fit(Inode& inode, holds::Hold hold) {
  DASSERT(inode.control.is_held());
  if (!inode.loaded.load(std::memory_order_relaxed)) return Code::ok;
  const holds::Hold fit = inode.fit.load(std::memory_order_relaxed);
  if (fit >= hold) return Code::ok;
  if (fit == holds::Hold::none) {
    const Result<Attributes> found = core_.meta.attributes(inode.id);
    if (!found) return found.error() == Code::not_found ? Status(Code::stale) : found.error();
    if (found->links == 0 && inode.was_lost) return Code::stale;
    TRY(loader_.reload(inode, *found));
    // From now on this session has it in use, for all to know.
    inode.was_lost = false;
    inode.fit.store(holds::Hold::shared, std::memory_order_release);
  }
  if (hold == holds::Hold::exclusive && inode.writers > 0) {
    TRY(loader_.know_tail(inode));
    TRY(core_.lengths.begin_session(inode));
  }
  inode.fit.store(hold, std::memory_order_release);
  return Code::ok;
}

void HeldInodes::make_fit_later(inodes::FitRequest& request) {
  add([this, &request] {
    Status status;
    {
      const std::lock_guard lock(request.inode->control);
      status = make_fit(*request.inode, request.hold);
    }
    request.loop->complete_remote(request, status);
  });
}

void HeldInodes::drop(InodeId inode, holds::Hold leave, std::function<void()> done) {
  add([this, inode, leave, done = std::move(done)] {
    drop_now(inode, leave);
    done();
  });
}

void HeldInodes::settle(InodeId inode, std::function<void()> done) {
  add([this, inode, done = std::move(done)] {
    // What is not in use is settled.
    if (core_.table.peek(inode) != nullptr) drop_now(inode, holds::Hold::exclusive);
    done();
  });
}

// Entries that no kernel was given lately are gone already.
void HeldInodes::drop_names(InodeId inode, std::vector<std::string> names,
                            std::function<void()> done) {
  if (core_.table.watchers(inode) == 0) return done();
  add([this, inode, names = std::move(names), done = std::move(done)] {
    notifier_.changed(inode, 0, 0, nullptr);
    recall_entries(inode, &names);
    done();
  });
}

void HeldInodes::drop_all(bool is_lost, std::function<void()> done) {
  if (is_lost) is_losing_.store(true, std::memory_order_release);
  add([this, is_lost, done = std::move(done)] {
    for (const InodeId inode : core_.table.all()) {
      is_lost ? lose_now(inode) : drop_unless_exclusive(inode);
    }
    await_entries();
    if (is_lost) is_losing_.store(false, std::memory_order_release);
    done();
  });
}

// Durable, as another agent is about to see it. Without the session it is what meta says.
Status HeldInodes::record(Inode& inode, holds::Hold leave) {
  const std::lock_guard lock(inode.control);
  if (!inode.loaded.load(std::memory_order_relaxed)) return Code::ok;
  const bool gives = leave < holds::Hold::exclusive;
  const bool changed = inode.changes.load(std::memory_order_acquire) != inode.settled;
  TRY(core_.lengths.record(inode, changed || inode.session, gives));
  ASSERT(!gives || !inode.session);
  inode.fit.store(std::min(inode.fit.load(std::memory_order_relaxed), leave),
                  std::memory_order_release);
  return Code::ok;
}

// Again until it is done, or nothing is this agent's any more and there is nothing to record.
void HeldInodes::settle_now(Inode& inode, holds::Hold leave) {
  const holds::AgentId session = core_.config.holding->session();
  Status last;
  while (true) {
    core_.behind.flush(inode);
    const Status status = record(inode, leave);
    if (status.ok() || core_.config.holding->session() != session) return;
    if (core_.closed.load(std::memory_order_relaxed)) return;
    if (status != last) {
      log::warning("inode {}: its length could not be recorded, which another node waits for: {}",
                   inode.id.value, status.name());
    }
    last = status;
    if (is_losing_.load(std::memory_order_acquire)) return;
    pause(limits::kHoldRetry);
  }
}

void HeldInodes::record_later(const std::shared_ptr<Inode>& inode) {
  if (core_.config.holding == nullptr) return;
  std::shared_ptr<Inode> used = core_.table.acquire(inode->id);
  ASSERT(used == inode);
  {
    const std::lock_guard lock(mutex_);
    unrecorded_.push_back(std::move(used));
    if (std::exchange(is_recording_, true)) return;
  }
  add([this] { record_all(); });
}

// One thread for all, as those that recalls need must not wait for a meta that is away.
void HeldInodes::record_all() {
  while (true) {
    std::vector<std::shared_ptr<Inode>> some;
    {
      const std::lock_guard lock(mutex_);
      const bool is_closed = core_.closed.load(std::memory_order_relaxed);
      if (is_closed || unrecorded_.empty()) {
        is_recording_ = false;
        recorded_.notify_all();
        return;
      }
      some = unrecorded_;
    }
    size_t done = 0;
    for (const std::shared_ptr<Inode>& inode : some) {
      if (core_.closed.load(std::memory_order_relaxed)) break;
      if (!record_again(*inode)) break;
      {
        const std::lock_guard lock(mutex_);
        unrecorded_.erase(std::find(unrecorded_.begin(), unrecorded_.end(), inode));
      }
      ++done;
      core_.table.release(inode);
      if (inode->unlinked.load(std::memory_order_relaxed)) core_.drops->want_collection();
    }
    if (done < some.size()) pause(limits::kHoldRetry);
  }
}

// Of a session that is over nothing is left to record.
bool HeldInodes::record_again(Inode& inode) {
  const std::lock_guard lock(inode.control);
  if (!inode.loaded.load(std::memory_order_relaxed)) return true;
  const Status recorded = core_.lengths.record(inode, false, inode.writers == 0);
  return recorded.ok() || recorded == Code::not_found;
}

void HeldInodes::end_recording() {
  ASSERT(core_.closed.load(std::memory_order_relaxed));
  std::vector<std::shared_ptr<Inode>> left;
  {
    std::unique_lock lock(mutex_);
    recorded_.wait(lock, [this] { return !is_recording_; });
    left.swap(unrecorded_);
  }
  for (const std::shared_ptr<Inode>& inode : left) core_.table.release(inode);
}

// Kernels that were given entries have them no more.
void HeldInodes::await_entries() {
  if (core_.config.entries == nullptr) return;
  const engine::Time until = core_.config.entries->given_until();
  const engine::Time now = core_.clock().now();
  if (until > now) pause(until - now);
}

void HeldInodes::pause(engine::Duration time) {
  struct Pausing {
    engine::Timer timer;
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
  } pausing;
  const Status status = core_.targets.wait([&](engine::Loop& loop, engine::Op& done) {
    pausing.loop = &loop;
    pausing.done = &done;
    pausing.timer.owner = &pausing;
    pausing.timer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Pausing>();
      self.loop->complete(*self.done, Code::ok);
    };
    loop.start(pausing.timer, loop.clock().now() + time);
  });
  ASSERT(status.ok());
}

void HeldInodes::drop_now(InodeId id, holds::Hold leave) {
  if (!core_.table.is_open(id) && core_.table.watchers(id) == 0) return;
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  settle_now(*inode, leave);
  if (leave == holds::Hold::none) forget_all(*inode);
  core_.table.release(inode);
}

// A new life of meta gives on what is exclusive, and nothing else. An operation that runs under
// such a hold may be making the inode fit at this moment: it stays so.
void HeldInodes::drop_unless_exclusive(InodeId id) {
  if (!core_.table.is_open(id) && core_.table.watchers(id) == 0) return;
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  bool stays = false;
  {
    const std::lock_guard lock(inode->control);
    stays = inode->fit.load(std::memory_order_relaxed) == holds::Hold::exclusive;
    if (!stays) {
      ASSERT(!inode->session);
      inode->fit.store(holds::Hold::none, std::memory_order_release);
    }
  }
  if (!stays) forget_all(*inode);
  core_.table.release(inode);
}

// With the entries of a directory that kernels were given.
void HeldInodes::forget_all(Inode& inode) {
  forget_copies(inode);
  recall_entries(inode.id, nullptr);
}

// Of several that recall the same, as where a recall is repeated, each waits for the kernel.
void HeldInodes::recall_entries(InodeId directory, const std::vector<std::string>* names) {
  holds::KeptEntries* const entries = core_.config.entries;
  if (entries == nullptr) return;
  const holds::KeptEntries::Given given = entries->take_given(directory, names);
  notifier_.entries_recalled(directory, given);
  entries->told(directory, given);
}

// Observers that hear of beginnings have let go of it, or have heard that what they are about to
// keep is old; the others let go of it before this returns.
void HeldInodes::forget_copies(Inode& inode) {
  inodes::Change change;
  core_.observers.begin(change, inode, {0, INT64_MAX});
  {
    const std::lock_guard lock(inode.control);
    inode.settled = inode.changes.fetch_add(1, std::memory_order_seq_cst) + 1;
  }
  core_.observers.end(change);
  notifier_.recalled(inode.id);
}

// Its bytes may still have got to the targets, where they are found by whoever settles the file.
void HeldInodes::lose_now(InodeId id) {
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  core_.behind.flush(*inode);
  {
    const std::lock_guard lock(inode->control);
    inode->settled = inode->changes.load(std::memory_order_acquire);
    inode->session = false;
    inode->was_lost = true;
    inode->session_durable.store(false, std::memory_order_relaxed);
    inode->fit.store(holds::Hold::none, std::memory_order_release);
  }
  forget_copies(*inode);
  core_.table.release(inode);
}

}  // namespace penstock::client
