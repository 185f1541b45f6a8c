// What the kernel may have cached of our inodes, and the thread that tells it to drop it.
//
// The kernel keeps attributes, names and pages for an hour. A change that is made by another way
// than this mount is reported to its maker only after the kernel was told, so that no program ever
// sees what is stale. Three things make that hold:
//
// - An inode is watched (client::FileSystem::watch) before anything about it is read for a reply.
// - While a reply that first tells the kernel of an inode is under way, the kernel would not
//   understand an invalidation: it is held back until the reply is written (begin_entry,
//   end_entry).
// - A reply about an inode that the kernel knows may be overtaken by an invalidation; the kernel
//   then ignores its attributes, and pages under read are waited for.
//
// Telling the kernel may block until one of our workers has answered a read of the same inode, so
// it is done by a thread of its own, and no worker ever waits for that thread.
#pragma once

#include "limits.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "penstock/client.h"

namespace penstock::fuse {

// The kernel's side, as far as it is needed here; a fake in tests. Both return 0 or -errno.
class KernelNotifier {
 public:
  virtual ~KernelNotifier() = default;
  // Drops the attributes, and the pages of [offset, offset + length); length 0: to the end;
  // negative offset: no pages.
  virtual int drop_inode(InodeId inode, int64_t offset, int64_t length) = 0;
  virtual int drop_entry(InodeId parent, const std::string& name) = 0;
};

// Where changes are heard of; the file system but for tests. See client::FileSystem for each.
class ChangeSource {
 public:
  virtual ~ChangeSource() = default;
  virtual void add(client::Observer& observer) = 0;
  virtual void remove(client::Observer& observer) = 0;
  virtual void watch(InodeId inode, client::Observer& observer) = 0;
  virtual void unwatch(InodeId inode, client::Observer& observer) = 0;
};

struct CacheTiming {
  // How long the maker of a change waits for the kernel at most.
  std::chrono::milliseconds deadline = kInvalidationDeadline;
  std::chrono::milliseconds quiet_gap = kQuietGap;
};

// Thread safe.
class KernelCache final : public client::Observer {
 public:
  // The root is always known.
  KernelCache(ChangeSource& source, KernelNotifier& notifier, CacheTiming timing = CacheTiming());
  // No call to the file system that names this observer may be in progress.
  ~KernelCache() override;

  // Nothing is told from here on: no change waits for the kernel any more. To be called while
  // workers still run, or after the connection has ended, since else what is being told would never
  // return.
  void end_telling();

  // Before anything about an inode that the kernel knows is read for a reply, or written for it.
  void touch(InodeId inode);

  // Before a reply that gives the kernel one more reference to `inode`. Attributes for it must be
  // read afterwards when this returns true: the inode was not watched before.
  bool begin_entry(InodeId inode);
  // After the reply was written; `delivered` is false if the kernel did not get it.
  void end_entry(InodeId inode, bool delivered) noexcept;
  // The kernel gives back `count` references.
  void forget(InodeId inode, uint64_t count);

  // A request that the kernel knows nothing of has changed attributes of the inode: after this call
  // the kernel asks for them. In a worker, before the reply; does not wait.
  void attributes_changed(InodeId inode);

  // client::Observer
  void data_changed(InodeId inode, uint64_t offset, uint64_t length,
                    std::function<void()> done) override;
  void entry_changed(InodeId parent, std::string_view name) override;
  void entry_recalled(InodeId parent, std::string_view name, engine::Time until) override;
  void inode_recalled(InodeId inode, std::function<void()> done) override;

 private:
  using Clock = std::chrono::steady_clock;

  // One thing to be told to the kernel.
  struct Change {
    InodeId inode;  // of an entry: the parent
    std::string name;
    bool is_entry = false;
    bool has_pages = false;
    uint64_t begin = 0;  // the range of pages
    uint64_t end = 0;
    Clock::time_point since;
    std::vector<std::function<void()>> done;
    bool queued = false;  // else held back until the replies under way are written
    bool late = false;    // its makers wait no longer
    bool finished = false;
  };
  using ChangePtr = std::shared_ptr<Change>;

  struct Known {
    uint64_t references = 0;  // the kernel's
    uint32_t replies = 0;     // under way that will give it one more
    bool watched = false;
    bool touched = false;  // since the kernel last dropped everything of it
    bool telling = false;  // a change of it is being told
    uint32_t quiet = 0;    // changes told in a row without a touch
    Clock::time_point told;
    ChangePtr waiting;  // not yet taken by the thread; held back while replies are under way
  };

  void watch(InodeId inode);
  void unwatch_if_unused(InodeId inode);
  bool drop_attributes(InodeId inode, bool joins);
  bool drop_entry(InodeId parent, std::string_view name, Clock::time_point deadline);
  static void widen(Change& change, uint64_t offset, uint64_t length);
  void expect_in_time(const ChangePtr& change);
  void enqueue(const ChangePtr& change);
  void tell_changes();
  void tell_entry(const ChangePtr& change);
  void tell_inode(const ChangePtr& change);
  void finish(const ChangePtr& change);
  void release_late_changes();

  ChangeSource& source_;
  KernelNotifier& notifier_;
  const CacheTiming timing_;

  // Taken before mutex_, around watch() and unwatch(), which the file system may serialise with its
  // calls to data_changed().
  std::mutex watch_mutex_;

  std::mutex mutex_;
  std::condition_variable work_;        // for the telling thread
  std::condition_variable late_;        // for the thread that releases late changes
  std::condition_variable entry_told_;  // an entry change was told
  std::unordered_map<InodeId, Known> known_;
  std::deque<ChangePtr> queue_;
  std::deque<ChangePtr> unfinished_;  // in order of `since`
  size_t entries_waiting_ = 0;
  bool releaser_idle_ = false;
  bool stopping_ = false;

  std::thread teller_;
  std::thread releaser_;
};

}  // namespace penstock::fuse
