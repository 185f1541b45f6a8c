#include "scrub.h"

#include <fmt/format.h>
#include <mutex>
#include <set>

namespace penstock::agent {
namespace {

constexpr size_t kPageEntries = 1024;

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

}  // namespace

ScrubReport scrub_node(Node& node, const std::function<void(uint64_t)>& progress) {
  ScrubReport report;
  std::mutex mutex;
  std::vector<uint64_t> verified(node.shards().size(), 0);
  std::vector<store::ScrubOp> ops(node.shards().size());
  std::vector<std::thread> waiters;
  for (size_t i = 0; i < ops.size(); ++i) {
    ops[i].on_damage = [&](const store::Damage& damage) {
      const std::lock_guard lock(mutex);
      report.bad.push_back({"", damage.chunk.inode.value, damage.chunk.index, damage.block,
                            std::string(damage.status.name())});
    };
    ops[i].on_progress = [&, i](uint64_t bytes) {
      const std::lock_guard lock(mutex);
      verified[i] = bytes;
      uint64_t all = 0;
      for (const uint64_t one : verified) all += one;
      if (progress) progress(all);
    };
    waiters.emplace_back([&, i] {
      NodeShard& shard = *node.shards()[i];
      // The target completes its own operation, which in turn ends the call.
      struct Link {
        engine::Loop* loop;
        engine::Op* done;
      } link{&shard.loop(), nullptr};
      ops[i].owner = &link;
      ops[i].completion = [](engine::Op& op) {
        Link& to = op.owner_as<Link>();
        to.loop->complete(*to.done, op.status);
      };
      (void)engine::thread_caller().call(shard.loop(), [&](engine::Op& done) {
        link.done = &done;
        shard.target().submit(ops[i]);
      });
    });
  }
  for (std::thread& waiter : waiters) waiter.join();
  std::set<uint64_t> damaged;
  for (const store::ScrubOp& op : ops) report.verified_bytes += op.verified_bytes;
  for (const ScrubReport::Bad& bad : report.bad) damaged.insert(bad.inode);
  if (damaged.empty()) return report;
  std::map<uint64_t, std::string> paths = PathFinder(node.meta(), damaged).find();
  for (ScrubReport::Bad& bad : report.bad) {
    const auto found = paths.find(bad.inode);
    bad.path = found != paths.end() ? found->second : fmt::format("inode {}", bad.inode);
  }
  return report;
}

}  // namespace penstock::agent
