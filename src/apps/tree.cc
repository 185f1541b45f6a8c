#include "tree.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fts.h>

namespace penstock::apps {

void walk_tree(const std::string& root, const TreeVisit& visit, const TreeVisit& leave,
               const TreeProblem& problem) {
  std::string start = root;
  while (start.size() > 1 && start.back() == '/') start.pop_back();
  char* const paths[] = {start.data(), nullptr};
  FTS* tree = ::fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
  if (tree == nullptr) {
    problem(root, std::strerror(errno));
    return;
  }
  const size_t prefix = start == "/" ? 1 : start.size() + 1;
  bool go_on = true;
  while (go_on) {
    FTSENT* node = ::fts_read(tree);
    if (node == nullptr) break;
    const std::string path(node->fts_path, node->fts_pathlen);
    if (node->fts_info == FTS_DNR || node->fts_info == FTS_ERR || node->fts_info == FTS_NS) {
      problem(path, std::strerror(node->fts_errno));
      continue;
    }
    TreeEntry entry{path, path.size() > prefix ? path.substr(prefix) : "", *node->fts_statp};
    if (node->fts_info != FTS_DP) {
      go_on = visit(entry);
    } else if (leave) {
      go_on = leave(entry);
    }
  }
  ::fts_close(tree);
}

void count_tree(const std::string& root, const std::atomic<bool>& stop, Progress* progress) {
  walk_tree(
      root,
      [&](const TreeEntry& entry) {
        if (!S_ISDIR(entry.st.st_mode)) progress->files_total.fetch_add(1);
        if (S_ISREG(entry.st.st_mode)) {
          progress->bytes_total.fetch_add(static_cast<uint64_t>(entry.st.st_size));
        }
        return !stop.load();
      },
      nullptr, [](const std::string&, const std::string&) {});
  if (!stop.load()) progress->totals_known.store(true);
}

bool TreeQueue::push(TreeEntry entry) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return entries_.size() < kCapacity || closed_; });
  if (closed_) return false;
  entries_.push_back(std::move(entry));
  changed_.notify_all();
  return true;
}

std::optional<TreeEntry> TreeQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !entries_.empty() || closed_; });
  if (entries_.empty()) return std::nullopt;
  TreeEntry entry = std::move(entries_.front());
  entries_.pop_front();
  changed_.notify_all();
  return entry;
}

void TreeQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Problems::add(const std::string& path, const std::string& why) {
  std::lock_guard lock(mutex_);
  ++count_;
  if (count_ <= kShown)
    std::fprintf(stderr, "penstock %s: %s: %s\n", command_, path.c_str(), why.c_str());
  if (count_ == kShown)
    std::fprintf(stderr, "penstock %s: further problems are counted only\n", command_);
}

uint64_t Problems::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace penstock::apps
