// The node cache in this process: memory of the agent's that is mapped here for reading, from which
// reads are answered without asking the agent.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "penstock/arena.h"
#include "penstock/base.h"
#include "penstock/cache_view/cache_reaper.h"
#include "penstock/connection.h"
#include "penstock/engine.h"

namespace penstock::cache_view {

// What was mapped of one agent. Any thread, without locks; as good as the agent lives, hence end().
class CacheView {
 public:
  CacheView(std::unique_ptr<arena::Reader> reader, MutableBytes touch_log)
      : reader_(std::move(reader)), log_(touch_log) {}
  ~CacheView();

  arena::Reader& reader() { return *reader_; }
  const arena::Reader& reader() const { return *reader_; }
  // One thread's own notes on its hits, told to the agent now and then.
  struct Hits {
    uint32_t untold = 0;
  };
  // Copies a range of a file to `to`, verified, and returns the bytes: fewer where the file ends.
  // Nothing if not all of it is here, or the agent took it away meanwhile; `to` may be written to
  // then, too.
  std::optional<uint64_t> read(InodeId inode, uint64_t offset, MutableBytes to, Hits* hits);
  // Starts to bring into the processor's cache what read() will look at: first where the range is
  // written down, then, once that has come, where it is.
  void prefetch_entry(InodeId inode, uint64_t offset) const {
    reader_->prefetch({inode, static_cast<uint32_t>(offset / arena::kExtentBytes)});
  }
  void prefetch_bytes(InodeId inode, uint64_t offset) const;
  // Makes what is mapped reachable for GPUs, which takes a while. The destructor waits for the
  // kernels that run: no thread that a kernel needs may wait for it. One thread, and always the
  // same GPUs.
  Status pin(engine::DeviceMemory& devices);
  // Whether GPUs reach the slot.
  bool is_pinned(uint32_t slot) const {
    return slot < pinned_slots_.load(std::memory_order_acquire);
  }
  // As read() does for its own hits.
  void note_hit(uint32_t slot, Hits* hits);
  // Whether the agent has more memory to be mapped.
  bool wants_more() const { return reader_->slabs_offered() > reader_->slabs_mapped(); }

  // The agent is gone.
  void end() { ended_.store(true, std::memory_order_release); }
  // Whether the memory may be out of date, as no agent keeps it true: to be asked after each copy,
  // which does not count then.
  bool ended() const;

 private:
  std::optional<uint64_t> copy(const arena::Found& found, uint32_t begin, MutableBytes to) const;
  MutableBytes slab_of(uint32_t slab) const;

  const std::unique_ptr<arena::Reader> reader_;
  arena::TouchLog log_;
  // Release pairs with the acquire behind each copy. Sooner than the memory's own time, mostly.
  std::atomic<bool> ended_{false};
  engine::DeviceMemory* devices_ = nullptr;  // pin()'s thread's, as the next
  uint32_t pinned_slabs_ = 0;
  std::atomic<uint32_t> pinned_slots_{0};  // release when they are pinned
};

// Maps what the agent offers, on a thread of its own that starts when there is something to do, so
// that no reader waits for it. Views end in another thread, so that a successor's cache does not
// wait for that.
class CacheMap final : public connection::Follower {
 public:
  explicit CacheMap(connection::Connection& connection) : connection_(connection) {}
  ~CacheMap() { stop(); }
  // The connection's calls end early by now.
  void stop();

  // Maps the cache, or what it has grown by, soon. Any thread.
  void want();
  // From now on GPUs read the cache, too. They outlive this object.
  void use_devices(engine::DeviceMemory& devices);
  // While rings for kernels are there: see CacheReaper.
  bool hold_views() { return reaper_.hold(); }
  void let_go_of_views() { reaper_.let_go(); }
  // Changes whenever view() does.
  uint64_t serial() const { return serial_.load(std::memory_order_acquire); }
  std::shared_ptr<CacheView> view();

  // Views end. Waits for nothing.
  void connection_lost() override;
  Status set_up_again(const Ask&) override { return Code::ok; }
  // The cache is mapped again.
  void connected_again(uint64_t) override { want(); }
  void epoch_changed() override {}

 private:
  void run();
  Status map();
  Result<std::shared_ptr<CacheView>> map_index();

  connection::Connection& connection_;
  std::atomic<bool> wanted_{false};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> serial_{1};  // release under the mutex pairs with serial()
  // Relaxed: until the connection is lost there is nothing more to be had.
  std::atomic<bool> given_up_{false};
  std::atomic<engine::DeviceMemory*> devices_{nullptr};  // release when set, acquire in map()

  std::mutex mutex_;
  std::thread thread_;
  CacheReaper reaper_;  // before the view, which goes there
  std::shared_ptr<CacheView> view_;
  uint64_t drops_ = 0;
  connection::SharedMemory touch_log_;  // the thread's
};

}  // namespace penstock::cache_view
