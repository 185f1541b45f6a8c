// What inodes need when a hold of them comes, and when it goes.
#pragma once

#include "core.h"
#include "inode_loader.h"
#include "limits.h"
#include "notifier.h"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace penstock::client {

// Thread safe. With a hold an inode is loaded anew, as others may have changed it; before the hold
// goes, what only this process knows of it is in meta and the targets, and observers have let go of
// their copies. That is done by threads of its own, which wait for meta and targets, and never for
// another agent (decision 0061, rule 8).
class HeldInodes final : public holds::Keeping, public inodes::Fitter {
 public:
  HeldInodes(Core& core, InodeLoader& loader, Notifier& notifier);
  ~HeldInodes() override;

  // What waits is done, and nothing comes any more. Idempotent.
  void stop();

  holds::Holding* holding() const { return core_.config.holding; }
  Core& core() { return core_; }

  // Nobody has the inode open, perhaps, and what it has changed could not be recorded: it stays in
  // use until it is, or is lost with the session. Nothing where there are no holds.
  void record_later(const std::shared_ptr<Inode>& inode);
  // The file system is closed, and has recorded what it could: nothing is tried any more.
  void end_recording();

  // For an operation under a hold, with the control lock held. An inode that was never loaded is
  // left to the open that loads it.
  Status make_fit(Inode& inode, holds::Hold hold);

  // Fitter.
  void make_fit_later(inodes::FitRequest& request) override;
  // Keeping.
  void drop(InodeId inode, holds::Hold leave, std::function<void()> done) override;
  void settle(InodeId inode, std::function<void()> done) override;
  void drop_names(InodeId inode, std::vector<std::string> names,
                  std::function<void()> done) override;
  void drop_all(bool is_lost, std::function<void()> done) override;

 private:
  void add(std::function<void()> job);
  void record_all();
  bool record_again(Inode& inode);
  void settle_now(Inode& inode, holds::Hold leave);
  Status record(Inode& inode, holds::Hold leave);
  void drop_now(InodeId inode, holds::Hold leave);
  void drop_unless_exclusive(InodeId inode);
  void lose_now(InodeId inode);
  void pause(engine::Duration time);
  void await_entries();
  void forget_copies(Inode& inode);
  void forget_all(Inode& inode);
  void recall_entries(InodeId directory, const std::vector<std::string>* names);

  Core& core_;
  InodeLoader& loader_;
  Notifier& notifier_;
  // Nothing is this agent's any more, so that nothing is to be recorded.
  std::atomic<bool> is_losing_{false};
  engine::Mutex mutex_;
  // Under it.
  std::vector<std::shared_ptr<Inode>> unrecorded_;  // each acquired
  bool is_recording_ = false;                       // some thread is at it
  engine::Condition recorded_;
  std::unique_ptr<engine::WorkerPool> pool_;  // null: there are no holds
};

}  // namespace penstock::client
