// The node cache: files' bytes in DRAM, in segments that applications read without asking (arena).
//
// Never stale. The cache watches a file from before it first reads of it (opening with itself as
// observer) until nothing of it is left, and a change of a watched file is reported to its maker
// only after data_changed() here has withdrawn what was published and poisoned what is being
// filled. So let a change be complete when a reader looks, and suppose it finds bytes from before
// the change. Some fill read them, that is, its read met the store before the change did; so the
// file was watched before the change reached the store, hence when the change looked for watchers,
// which comes after; hence it was told to us before it was complete. Then the fill had either
// published, and its entry is gone, or not, and what it read is dropped at the end. Lengths go the
// same way: a fill that ends where the file ended is dropped when the file grows. A write that
// failed is reported as one that is complete, since its bytes may be stored; this relies on its
// target being through with it by then (engine::Net::cancel()).
//
// Nor does a reader go back. A change may be seen by readers who ask long before it is complete: a
// durable write while it waits for its commit. So it is told to us when it begins, data_changing(),
// before any reader can have found the new bytes: then what was published is withdrawn, what is
// being filled is poisoned, and until the change has ended no fill of its range begins. A fill that
// begins looks for such changes after it can be poisoned, and so misses none.
//
// No application sees what its user may not. A fill begins only while the mode bits let the
// segment's class read the file; they are looked at after the file is watched, and every change of
// attributes (it may be one of rights) takes the whole file out of all segments before it is
// reported.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/arena.h"
#include "penstock/client.h"
#include "penstock/engine.h"
#include "penstock/node_cache/shard_fills.h"
#include "penstock/rails.h"
#include "penstock/resources.h"

namespace penstock::node_cache {

// The node cache's segment of one class of readers.
struct CacheStatus {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t groups = 0;    // how many supplementary ones
  uint32_t sessions = 0;  // that read it
  uint64_t bytes = 0;     // that it has
  uint64_t used_bytes = 0;
  uint64_t hits = 0;  // as its applications say
  uint64_t fills = 0;
  uint64_t evictions = 0;
  uint64_t dropped = 0;  // as the files changed
};

// What the cache stands on. All of it outlives the cache.
struct NodeCacheConfig {
  uint64_t bytes = 0;  // of DRAM; less than a slab are refused
  client::FileSystem* files = nullptr;
  resources::RegisteredBuffers* buffers = nullptr;
  const rails::Announcements* network = nullptr;  // null: there are no cards that know memory
  struct Shard {
    engine::Loop* loop = nullptr;
    client::Client* client = nullptr;
  };
  std::vector<Shard> shards;
  engine::Loop* loop = nullptr;  // of the cache's own thread: no other runs it
};

// Fills take their slots and are published on a thread of its own, which may block (to open files,
// to make slabs); which files are held and watched is that thread's alone.
class NodeCache final : public client::Observer, public arena::SlabHost {
 public:
  static Outcome<std::unique_ptr<NodeCache>> start(const NodeCacheConfig& config);
  // Waits for fills under way. All sessions have left, and the loops of the shards still run.
  ~NodeCache() override;

  // A shard's part, in the order of the configuration.
  ShardFills& fills(size_t shard) { return *shard_fills_[shard]; }

  // The segment of a session's class; null when there are too many classes.
  std::shared_ptr<arena::Segment> enter(const client::Credentials& credentials);
  void leave(const std::shared_ptr<arena::Segment>& segment);

  std::vector<CacheStatus> status();

  // From the shard's thread. Each leads to one call of its `home`: read() or ended(), then ended().
  void begin(FillOp& op);
  void finish(FillOp& op);
  // Completes the request on `loop`, its shard's, with the bytes that are here.
  void count(FillRequest& request, engine::Loop& loop);

  // client::Observer
  void data_changed(InodeId inode, uint64_t offset, uint64_t length,
                    std::function<void()> done) override;
  void entry_changed(InodeId, std::string_view) override {}
  bool hears_beginnings() const override { return true; }
  void data_changing(InodeId inode, client::ByteRange range) override;

  // arena::SlabHost
  uint32_t slab_made(MutableBytes memory) override;
  void slab_gone(uint32_t number, MutableBytes memory) override;

 private:
  // A file while fills of one segment are under way.
  struct Held {
    client::FileRef file;
    uint32_t fills = 0;
    uint64_t checked = 0;  // attribute_changes_ before the class's right to read was looked at
  };
  using HeldKey = std::pair<const arena::Segment*, InodeId>;

  explicit NodeCache(const NodeCacheConfig& config);
  void back_to_shard(FillOp& op, bool to_read);
  void tidy_later();
  // The rest is for the cache's thread.
  void take_slot(FillOp& op);
  Result<arena::Segment::Start> start_fill(FillOp& op);
  arena::Segment::Start take_slot_for(FillOp& op);
  bool is_changing(const FillOp& op) const;
  void publish(FillOp& op);
  void wake_those_behind(const FillOp& ended);
  Result<Held*> hold(const arena::Segment& segment, InodeId inode);
  void release(const arena::Segment& segment, InodeId inode);
  void forget(InodeId inode);
  void forget_released(arena::Segment& segment);
  void tidy();
  void renew();

  client::FileSystem& files_;
  resources::RegisteredBuffers& buffers_;
  const rails::Announcements* const network_;
  std::vector<std::unique_ptr<ShardFills>> shard_fills_;
  std::unique_ptr<arena::Arena> arena_;

  engine::Loop& loop_;
  engine::Thread thread_;

  std::map<HeldKey, Held> held_;
  IntrusiveList<FillOp> behind_others_;  // other fills of the same extents are under way
  std::set<InodeId> watched_;

  std::atomic<uint32_t> slab_buffers_{0};  // relaxed: a bound, nearly kept
  // Counts changes of attributes; sequentially consistent, before the segments are told.
  std::atomic<uint64_t> attribute_changes_{0};
  engine::Op tidy_op_;
  std::atomic<bool> tidying_{false};  // tidy_op_ is on its way
  // The lease (cache_lease.h) is renewed while there are sessions.
  engine::Timer renewal_;
  bool renewing_ = false;  // the timer runs
  engine::Op renew_op_;
  std::atomic<bool> renewal_asked_{false};  // renew_op_ is on its way

  metrics::Counter fills_{"cache.fills"};
  metrics::Counter fill_bytes_{"cache.fill.bytes"};
  metrics::Counter hits_{"cache.hits"};
  metrics::Counter evictions_{"cache.evictions"};
  metrics::Counter dropped_{"cache.dropped"};
};

}  // namespace penstock::node_cache
