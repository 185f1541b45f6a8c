// A process of the simulation: a file system of numbers, which reads, keeps what it read, writes
// behind and gives back, on a loop that may stand still.
#pragma once

#include "story_world.h"

#include <map>
#include <memory>
#include <set>
#include <vector>

namespace penstock::holds_net {

// May stand still, for an agent that takes no notice of its lease.
class StoryClock final : public engine::Clock {
 public:
  explicit StoryClock(const engine::Clock& real, bool stands) : real_(real), stands_(stands) {}
  Time now() const override { return real_.now(); }
  Time lease_now() const override { return stands_ ? Time(seconds(1)) : real_.lease_now(); }
  engine::WallTime wall() const override { return real_.wall(); }

 private:
  const engine::Clock& real_;
  const bool stands_;
};

class StoryNode final : private holds::Keeping {
 public:
  StoryNode(StoryWorld& world, NodeId node);
  ~StoryNode();

  void read(InodeId inode);
  void write(InodeId inode);
  // Nothing of it goes on for so long, and it does not notice.
  void stop_for(Duration duration);
  // Another process begins in its place. With `put`: it ends well, and has put away all.
  void begin_anew(bool put);
  // All that was asked of it has ended, and more may be asked.
  bool is_idle();
  void end();
  NodeId node() const { return node_; }
  std::string describe();

 private:
  struct File {
    std::optional<Version> kept;
    bool is_behind = false;     // `kept` is not in the targets yet
    bool is_exclusive = false;  // since it was written
    bool is_written = false;    // by one at a time
    std::vector<std::function<void()>> when_put;
  };
  // Something that a program wants of a file.
  struct Operation : holds::Holding::Waiter {
    StoryNode* node_of = nullptr;
    bool writes = false;
    std::shared_ptr<Version> least;
    uint64_t life = 0;
  };

  void start();
  void run(std::function<void()> action);  // in its loop
  void later(int most_ms, std::function<void()> action);
  void operate(InodeId inode, bool writes);
  void entered(Operation& operation);
  void finish_read(Operation& operation, Version version);
  void write_now(Operation& operation);
  void leave(Operation& operation);
  void over(Operation& operation);
  void put(InodeId inode, std::function<void()> then);
  void put_all(std::function<void()> then);
  void close_agent();

  void drop(InodeId inode, Hold leave, std::function<void()> done) override;
  void settle(InodeId inode, std::function<void()> done) override;
  void drop_names(InodeId, std::vector<std::string>, std::function<void()> done) override {
    done();
  }
  void drop_all(bool is_lost, std::function<void()> done) override;

  StoryWorld& world_;
  const NodeId node_;
  StoryClock clock_;
  std::unique_ptr<sim::SimParker> parker_;
  engine::Loop loop_;
  std::unique_ptr<sim::SimNet> net_;
  std::unique_ptr<HoldsAgent> agent_;
  std::map<InodeId, File> files_;
  std::set<Operation*> operations_;
  uint64_t life_ = 1;  // of the process
  bool is_closing_ = false;
  bool is_ended_ = false;
  engine::Op closed_;
  int stops_ = 0;
};

}  // namespace penstock::holds_net
