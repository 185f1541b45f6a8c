// What waits for the file system's own thread: opens that were dropped, and removed files.
#pragma once

#include "open_file.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace penstock::client {

// Opens that were dropped without close_file(), until somebody who may block gives them back.
// Outlives the file system, as references to open files may.
class DropQueue final : public DroppedOpens {
 public:
  struct Dropped {
    std::shared_ptr<Inode> inode;
    bool writer = false;
  };
  void dropped(std::shared_ptr<Inode> inode, bool writer) override;
  std::vector<Dropped> take();

  // Waits for dropped opens, wake() or the time to pass. False after stop().
  bool wait(engine::Duration at_most);
  void wake();
  // Gives others the time to come, too: limits::kCollectCompany, unless somebody is in a hurry.
  void wait_for_company();
  void hurry();
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Dropped> dropped_;
  bool woken_ = false;
  bool hurried_ = false;
  bool stopped_ = false;
};

}  // namespace penstock::client
