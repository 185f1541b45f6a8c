// One polling thread with what belongs to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "penstock/agent.h"
#include "penstock/disk.h"
#include "penstock/engine.h"

namespace penstock::agent {

// Made and taken apart by the thread that starts the node; between run() and stop() the shard's
// thread owns all of it.
class NodeShard {
 public:
  // With a disk on the file system of the directory `root`.
  static Outcome<std::unique_ptr<NodeShard>> with_disk(uint32_t index, const std::string& root,
                                                       bool force_threads, engine::Duration spin);
  static std::unique_ptr<NodeShard> diskless(uint32_t index, engine::Duration spin);
  ~NodeShard();

  // Before run(), once.
  void set_net(std::unique_ptr<engine::Net> net);
  // The same with one that belongs to somebody else, and is there until drop_net().
  void borrow_net(engine::Net& net);
  void run();
  // Ends the thread, after `last` has completed in the loop; nothing without run(). No operation
  // may come any more.
  void stop(const std::function<void(engine::Op& done)>& last);

  uint32_t index() const { return index_; }
  engine::Loop& loop() { return *loop_; }
  engine::Parker& parker() { return *parker_; }
  engine::Disk* disk() { return disk_; }  // null: it has none
  engine::Net& net() { return *net_; }
  // After stop(): calls end before what serves them.
  void drop_net() {
    net_ = nullptr;
    own_net_.reset();
  }

 private:
  explicit NodeShard(uint32_t index) : index_(index), random_(engine::system_seed()) {}

  const uint32_t index_;
  engine::SeededRandom random_;
  std::unique_ptr<disk::DiskDriver> driver_;
  std::unique_ptr<engine::FutexParker> futex_parker_;  // where there is no driver
  engine::Parker* parker_ = nullptr;
  std::unique_ptr<engine::Loop> loop_;
  engine::Disk* disk_ = nullptr;
  std::unique_ptr<engine::Net> own_net_;
  engine::Net* net_ = nullptr;
  std::thread thread_;
};

}  // namespace penstock::agent
