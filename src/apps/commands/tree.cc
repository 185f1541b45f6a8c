#include "tree.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fts.h>

namespace penstock::apps {

TreeFiles::TreeFiles(const std::string& root)
    : root_(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

UniqueFd TreeFiles::open(const TreeEntry& entry) const {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  const bool below = root_ && !entry.relative.empty();
  return UniqueFd(below ? ::openat(root_.get(), entry.relative.c_str(), kFlags)
                        : ::open(entry.path.c_str(), kFlags));
}

void walk_tree(const std::string& root, const TreeVisit& visit, const TreeProblem& problem) {
  std::string start = root;
  while (start.size() > 1 && start.back() == '/') start.pop_back();
  char* const paths[] = {start.data(), nullptr};
  FTS* tree = ::fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
  if (tree == nullptr) {
    problem(root, std::strerror(errno));
    return;
  }
  const size_t prefix = start == "/" ? 1 : start.size() + 1;
  TreeStep step = TreeStep::go_on;
  while (step != TreeStep::stop) {
    FTSENT* node = ::fts_read(tree);
    if (node == nullptr) break;
    const std::string path(node->fts_path, node->fts_pathlen);
    if (node->fts_info == FTS_DNR || node->fts_info == FTS_ERR || node->fts_info == FTS_NS) {
      problem(path, std::strerror(node->fts_errno));
      continue;
    }
    if (node->fts_info == FTS_DP) continue;  // all below a directory was visited
    step = visit({path, path.size() > prefix ? path.substr(prefix) : "", *node->fts_statp});
    if (step == TreeStep::not_below) ::fts_set(tree, node, FTS_SKIP);
  }
  ::fts_close(tree);
}

void count_tree(const std::string& root, const std::atomic<bool>& stop,
                console::Progress* progress) {
  walk_tree(
      root,
      [&](const TreeEntry& entry) {
        if (!S_ISDIR(entry.st.st_mode)) progress->files_total.fetch_add(1);
        if (S_ISREG(entry.st.st_mode)) {
          progress->bytes_total.fetch_add(static_cast<uint64_t>(entry.st.st_size));
        }
        return stop.load() ? TreeStep::stop : TreeStep::go_on;
      },
      [](const std::string&, const std::string&) {});
  if (!stop.load()) progress->totals_known.store(true);
}

bool TreeQueue::push(TreeEntry entry) {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [this] { return entries_.size() < kCapacity || closed_; });
  if (closed_) return false;
  entries_.push_back(std::move(entry));
  if (entries_.size() >= kTogether) filled_.notify_one();
  return true;
}

std::vector<TreeEntry> TreeQueue::pop() {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [this] { return entries_.size() >= kTogether || closed_; });
  std::vector<TreeEntry> taken;
  for (uint64_t bytes = 0;
       !entries_.empty() && taken.size() < kTogether && bytes < kBytesTogether;) {
    taken.push_back(std::move(entries_.front()));
    entries_.pop_front();
    if (S_ISREG(taken.back().st.st_mode)) bytes += static_cast<uint64_t>(taken.back().st.st_size);
  }
  if (entries_.size() >= kTogether) filled_.notify_one();
  emptied_.notify_one();
  return taken;
}

void TreeQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  filled_.notify_all();
  emptied_.notify_all();
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
