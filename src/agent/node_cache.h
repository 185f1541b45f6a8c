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
// same way: a fill that ends where the file ended is dropped when the file grows.
//
// Nobody sees what he may not. A fill begins only while the mode bits let the segment's class read
// the file; they are looked at after the file is watched, and every change of attributes (it may be
// one of rights) takes the whole file out of all segments before it is reported.
#pragma once

#include "shard_fills.h"

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "penstock/agent.h"
#include "penstock/arena.h"
#include "penstock/client.h"

namespace penstock::agent {

struct SessionNode;

// Fills take their slots and are published on a thread of its own, which may block (to open files,
// to make slabs); everything about who holds and watches what belongs to that thread.
class NodeCache final : public client::Observer, public arena::SlabHost {
 public:
  // `node` has its files and shards, which outlive the cache; its shards get their ShardFills.
  // `bytes` of less than a slab are refused.
  static Outcome<std::unique_ptr<NodeCache>> start(SessionNode& node, uint64_t bytes);
  // Waits for fills under way. All sessions have left, and the loops of the shards still run.
  ~NodeCache() override;

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

  explicit NodeCache(SessionNode& node);
  void back_to_shard(FillOp& op, bool to_read);
  void tidy_later();
  // The rest is for the cache's thread.
  void take_slot(FillOp& op);
  Result<arena::Segment::Start> start_fill(FillOp& op);
  arena::Segment::Start take_slot_for(FillOp& op);
  void publish(FillOp& op);
  void wake_those_behind(const FillOp& ended);
  Result<Held*> hold(const arena::Segment& segment, InodeId inode);
  void release(const arena::Segment& segment, InodeId inode);
  void forget(InodeId inode);
  void forget_released(arena::Segment& segment);
  void tidy();
  void renew();

  SessionNode& node_;
  std::unique_ptr<arena::Arena> arena_;

  engine::SeededRandom random_;
  engine::FutexParker parker_;
  engine::Loop loop_;
  std::thread thread_;

  std::map<HeldKey, Held> held_;
  IntrusiveList<FillOp> behind_others_;  // for whose extents others have fills under way
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

}  // namespace penstock::agent
