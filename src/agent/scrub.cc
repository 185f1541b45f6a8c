#include "scrub.h"

#include <atomic>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <set>

namespace penstock::agent {
namespace {

constexpr size_t kPageEntries = 1024;
constexpr std::chrono::milliseconds kProgressInterval{200};

// Paths of those inodes that have a name, found by walking the whole namespace; done only when
// something is damaged.
class PathFinder {
 public:
  PathFinder(meta::Meta& meta, std::set<uint64_t> wanted)
      : meta_(meta), wanted_(std::move(wanted)) {}

  std::map<uint64_t, std::string> find() {
    std::vector<std::pair<InodeId, std::string>> open{{meta::kRootInode, ""}};
    while (!open.empty() && paths_.size() < wanted_.size()) {
      const auto [directory, path] = open.back();
      open.pop_back();
      visit(directory, path, &open);
    }
    return std::move(paths_);
  }

 private:
  void visit(InodeId directory, const std::string& path,
             std::vector<std::pair<InodeId, std::string>>* open) {
    uint64_t cookie = 0;
    bool more = true;
    while (more) {
      more = false;
      const Status status =
          meta_.read_directory(directory, cookie, kPageEntries, false,
                               [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
                                 more = true;
                                 cookie = entry.cookie;
                                 const std::string name = path + "/" + entry.name;
                                 if (wanted_.contains(entry.inode.value))
                                   paths_.emplace(entry.inode.value, name);
                                 if (entry.type == meta::FileType::directory)
                                   open->emplace_back(entry.inode, name);
                                 return true;
                               });
      if (!status.ok()) return;
    }
  }

  meta::Meta& meta_;
  const std::set<uint64_t> wanted_;
  std::map<uint64_t, std::string> paths_;
};

// The scrub of one target. What the shard's thread does for it never waits.
class ShardScrub {
 public:
  ShardScrub() {
    op_.on_damage = [this](const store::Damage& damage) {
      if (damage.healed) return;
      bad_.push_back({"", damage.chunk.inode.value, damage.chunk.index, damage.block,
                      std::string(damage.status.name())});
    };
    op_.on_progress = [this](uint64_t bytes) {
      verified_.store(bytes, std::memory_order_relaxed);
      op_.stop = stopped_.load(std::memory_order_relaxed);
    };
  }

  // Blocks until the end.
  void run(NodeShard& shard, store::Target& target) {
    ASSERT(op_.owner == nullptr);
    // The target completes its own operation, which in turn ends the call.
    struct Link {
      engine::Loop* loop;
      engine::Op* done;
    } link{&shard.loop(), nullptr};
    op_.owner = &link;
    op_.completion = [](engine::Op& op) {
      Link& to = op.owner_as<Link>();
      to.loop->complete(*to.done, op.status);
    };
    status_ = engine::thread_caller().call(shard.loop(), [&](engine::Op& done) {
      link.done = &done;
      target.submit(op_);
    });
  }

  // While it runs, from any thread.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  uint64_t verified_bytes() const { return verified_.load(std::memory_order_relaxed); }

  // Afterwards.
  void add_to(ScrubReport* report) const {
    report->verified_bytes += op_.verified_bytes;
    report->healed_blocks += op_.healed_blocks;
    report->complete = report->complete && status_.ok();
    report->bad.insert(report->bad.end(), bad_.begin(), bad_.end());
  }

 private:
  store::ScrubOp op_;
  std::vector<ScrubReport::Bad> bad_;
  // Relaxed: neither orders anything else.
  std::atomic<uint64_t> verified_{0};
  std::atomic<bool> stopped_{false};
  Status status_;
};

}  // namespace

ScrubReport scrub_node(Node& node, const ScrubProgress& progress) {
  ScrubReport report;
  report.complete = true;
  if (node.storage() == nullptr) return report;
  std::vector<std::unique_ptr<ShardScrub>> scrubs;
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<NodeShard*> homes;  // of targets
  for (const auto& shard : node.shards()) {
    if (node.storage()->target(shard->index()) != nullptr) homes.push_back(shard.get());
  }
  size_t running = homes.size();
  std::vector<std::thread> waiters;
  for (NodeShard* const shard : homes) {
    ShardScrub& scrub = *scrubs.emplace_back(std::make_unique<ShardScrub>());
    waiters.emplace_back([&, home = shard] {
      scrub.run(*home, *node.storage()->target(home->index()));
      const std::lock_guard lock(mutex);
      ASSERT(running > 0);
      --running;
      ended.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, kProgressInterval, [&] { return running == 0; })) {
    lock.unlock();
    uint64_t verified = 0;
    for (const auto& scrub : scrubs) verified += scrub->verified_bytes();
    if (progress && !progress(verified)) {
      for (const auto& scrub : scrubs) scrub->stop();
    }
    lock.lock();
  }
  lock.unlock();
  for (std::thread& waiter : waiters) waiter.join();

  ASSERT(running == 0);
  for (const auto& scrub : scrubs) scrub->add_to(&report);
  std::set<uint64_t> damaged;
  for (const ScrubReport::Bad& bad : report.bad) damaged.insert(bad.inode);
  std::map<uint64_t, std::string> paths;
  if (!damaged.empty() && node.meta() != nullptr) {
    paths = PathFinder(*node.meta(), damaged).find();
  }
  for (ScrubReport::Bad& bad : report.bad) {
    const auto found = paths.find(bad.inode);
    bad.path = found != paths.end() ? found->second : fmt::format("inode {}", bad.inode);
  }
  return report;
}

}  // namespace penstock::agent
