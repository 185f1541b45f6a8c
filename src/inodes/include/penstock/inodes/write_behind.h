// Small writes that wait in memory: decision 0026.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "penstock/inodes/inode.h"
#include "penstock/inodes/limits.h"

namespace penstock::inodes {

// Bytes of one inode that were taken and are not in the targets yet.
struct Gathered : ListNode {
  FileRef file;                  // of the write that began it: the way to the targets
  std::shared_ptr<Inode> inode;  // outlives `file` where that is closed
  uint64_t begin = 0;            // of the file
  uint64_t length = 0;
  uint64_t taken = 0;    // the number of the last write in it; see Behind::taken
  engine::Time since{};  // of the first write in it
  bool started = false;  // a thread writes it
  // In which `begin` has the same offset in a page as in the file.
  std::unique_ptr<std::byte[], void (*)(std::byte*)> memory{nullptr, nullptr};

  uint64_t end() const { return begin + length; }
  std::byte* data() const { return memory.get() + begin % limits::kBlockBytes; }
};

// Asks for what was taken before to be in the targets; completes on `loop`, always with ok.
struct FlushRequest : engine::Op {
  engine::Loop* loop = nullptr;
  Inode* inode = nullptr;  // kept alive by the caller
};

// Thread safe. Locks: an inode's `behind.mutex` before this one's.
class WriteBehind {
 public:
  // Brings bytes to the targets, durably where a sync waits for them; blocks.
  using Put = std::function<Status(const Gathered&, bool durable)>;
  // Bytes did not get there: observers that keep copies of them must drop them. Does not block.
  using Lost = std::function<void(const Gathered&)>;

  WriteBehind(const Config& config, Put put, Lost lost);
  // What still waits is dropped, as by a crash.
  ~WriteBehind();

  void start();
  // As a crash: from now on nothing is taken, and what still waits stays where it is. Idempotent.
  void halt();
  // From now on nothing is taken. Returns when everything taken before is in the targets or lost.
  void stop();

  // Takes the bytes; false when they must be written at once. May wait for an earlier buffer.
  bool take(const FileRef& file, std::shared_ptr<Inode> inode, uint64_t offset,
            engine::MemoryRef memory, const meta::FileWriter* writer);

  // Blocks until everything that was taken from this inode before is in the targets or lost.
  void flush(Inode& inode) { flush(inode, false); }
  // The same for a sync that follows: what no thread has begun to write is written durably, which
  // leaves that sync less to wait for.
  void flush_durably(Inode& inode) { flush(inode, true); }
  void flush_all();
  // The same for one inode from any thread, without blocking.
  void flush_later(FlushRequest& request);

 private:
  using Lock = std::unique_lock<engine::Mutex>;

  const engine::Clock& clock() const { return config_.shards.front().loop->clock(); }
  void flush(Inode& inode, bool durable);
  bool may_gather();
  std::unique_ptr<Gathered> begin(const FileRef& file, std::shared_ptr<Inode> inode,
                                  uint64_t offset);
  // With the inode's lock, which they give up meanwhile. The caller keeps the inode alive.
  void carry_out(Inode& inode, Lock& lock, bool durable);
  void wait_or_help(Inode& inode, Lock& lock, bool durable);
  void give_back(Gathered& done);
  void seal(Inode& inode);
  void write_older(Inode& inode);
  void run();
  void wait_for_work(Lock& lock);
  std::shared_ptr<Inode> due();
  std::shared_ptr<Inode> full();

  const Config& config_;
  const Put put_;
  const Lost lost_;

  // Relaxed, all four: estimates and hints; the buffers themselves are counted under the mutex.
  std::atomic<bool> open_{false};
  std::atomic<engine::Time> room_seen_{};
  std::atomic<bool> room_{false};
  std::atomic<engine::Time> trouble_until_{};

  engine::Mutex mutex_;
  engine::Condition work_;
  IntrusiveList<Gathered> gathered_;  // all that is not in the targets, the oldest first
  uint64_t buffers_ = 0;              // their number
  uint64_t begun_ = 0;                // of all times
  uint64_t seen_ = 0;                 // of these, when the worker last looked at the time
  bool resting_ = false;              // the worker waits until there are some
  std::vector<std::unique_ptr<std::byte[], void (*)(std::byte*)>> spare_;
  IntrusiveList<FlushRequest> requests_;
  std::vector<std::shared_ptr<Inode>> sealed_;  // whose older buffer no thread has begun to write
  bool short_ = false;                          // a writer found no buffer
  uint64_t wanted_ = 0;                         // buffers that are to be written before their time
  bool stop_ = false;
  engine::Thread worker_;
};

}  // namespace penstock::inodes
