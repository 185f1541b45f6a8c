#include "limited.h"

#include <algorithm>

namespace penstock::meta_net {
namespace {

// A directory has no more above it; a path has no more names.
constexpr size_t kDepthMax = limits::kPathBytesMax;

}  // namespace

NodeRights::NodeRights(meta::Meta& meta, const engine::Clock& clock, Find find)
    : meta_(meta), clock_(clock), find_(std::move(find)) {
  ASSERT(find_ != nullptr);
}
NodeRights::~NodeRights() = default;

Result<std::shared_ptr<Limited>> NodeRights::of(NodeId node, uint64_t session) {
  std::shared_ptr<const Limits> limits = find_(node);
  const std::lock_guard lock(mutex_);
  if (limits == nullptr) {
    nodes_.erase(node);
    return std::shared_ptr<Limited>();
  }
  std::shared_ptr<Limited>& known = nodes_[node];
  const bool is_other = known == nullptr || known->limits().since != limits->since;
  if (!is_other && session < known->session()) return Code::stale;
  if (is_other || session > known->session()) {
    known = std::make_shared<Limited>(meta_, clock_, std::move(limits), session);
  }
  return known;
}

bool NodeRights::has(NodeId node, InodeId inode, Right right) {
  const std::shared_ptr<const Limits> limits = find_(node);
  if (limits == nullptr) return true;
  if (right == Right::write && limits->what.read_only) return false;
  std::shared_ptr<Limited> limited;
  {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(node);
    if (found != nodes_.end()) limited = found->second;
  }
  if (limited == nullptr || limited->limits().since != limits->since) return false;
  return limited->has(inode, right == Right::name   ? kProvenName
                             : right == Right::read ? kProvenRead
                                                    : kProvenWrite);
}

// What that session is known by; null: not at all.
std::shared_ptr<Limited> NodeRights::known(NodeId node, uint64_t session, const Limits& limits) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second == nullptr) return nullptr;
  const bool is_it =
      found->second->session() == session && found->second->limits().since == limits.since;
  return is_it ? found->second : nullptr;
}

NodeRights::Hold NodeRights::may_hold(NodeId node, uint64_t session, InodeId inode,
                                      bool exclusive) {
  const std::shared_ptr<const Limits> limits = find_(node);
  if (limits == nullptr) return {May::yes, inode};
  if (exclusive && limits->what.read_only) return {May::only_reads, {}};
  const std::shared_ptr<Limited> limited = known(node, session, *limits);
  const InodeId number = limited == nullptr ? InodeId() : limited->number_of(inode);
  // The root is what it has without being shown it.
  const bool is_known =
      number != InodeId() && (inode == meta::kRootInode || limited->has(number, kProvenName));
  return is_known ? Hold{May::yes, number} : Hold{May::unknown, {}};
}

bool NodeRights::may_lock(NodeId node, uint64_t session, InodeId inode, bool writes) {
  const std::shared_ptr<const Limits> limits = find_(node);
  if (limits == nullptr) return true;
  const std::shared_ptr<Limited> limited = known(node, session, *limits);
  if (limited == nullptr) return false;
  return limited->has(inode, kProvenWrite) || (!writes && limited->has(inode, kProvenRead));
}

uint8_t& ProvenFiles::newer(InodeId inode) {
  if (const auto found = newer_.find(inode.value); found != newer_.end()) return found->second;
  uint8_t bits = 0;
  if (const auto old = older_.find(inode.value); old != older_.end()) {
    bits = old->second;
    older_.erase(old);
  }
  if (newer_.size() >= limits::kProvenPerNode / 2) {
    older_ = std::move(newer_);
    newer_.clear();
  }
  return newer_[inode.value] = bits;
}

bool Limited::has(InodeId inode, uint8_t bits) {
  const std::lock_guard lock(mutex_);
  return proven_.has(inode, bits);
}

void Limited::prove(InodeId inode, uint8_t bits) {
  const std::lock_guard lock(mutex_);
  proven_.add(inode, bits);
}

// What has the path at the moment, or had it a moment ago. A path that leads to none ends with
// not_found.
Result<InodeId> Limited::root() {
  if (!has_subtree()) return meta::kRootInode;
  const engine::Time now = clock_.now();
  {
    const std::lock_guard lock(mutex_);
    if (root_ != InodeId() && now < root_until_) return root_;
  }
  const auto found = meta_.resolve({}, limits_->what.subtree, false);
  const bool is_there = found && found->type == meta::FileType::directory;
  const std::lock_guard lock(mutex_);
  if (!is_there || found->inode != root_) inside_.clear();
  root_ = is_there ? found->inode : InodeId();
  root_until_ = now + limits::kJudgedTime;
  if (found || found.error() == Code::not_found || found.error() == Code::not_directory) {
    return is_there ? Result<InodeId>(root_) : Result<InodeId>(Code::not_found);
  }
  return found.error();
}

InodeId Limited::number_of(InodeId said) {
  if (said != meta::kRootInode || !has_subtree()) return said;
  const std::lock_guard lock(mutex_);
  return root_;
}

std::optional<bool> Limited::known_inside(InodeId directory) {
  const std::lock_guard lock(mutex_);
  const auto found = inside_.find(directory.value);
  if (found == inside_.end() || clock_.now() >= found->second.until) return std::nullopt;
  return found->second.is;
}

void Limited::note_inside(const std::vector<InodeId>& directories, bool is) {
  const engine::Time until = clock_.now() + limits::kJudgedTime;
  const std::lock_guard lock(mutex_);
  if (inside_.size() + directories.size() > limits::kJudgedPerNode) inside_.clear();
  for (const InodeId directory : directories) inside_[directory.value] = {is, until};
}

// The root is among those above it, or it is the root itself.
Result<bool> Limited::is_inside(InodeId directory, InodeId root) {
  std::vector<InodeId> passed;
  bool is = false;
  for (InodeId at = directory; passed.size() < kDepthMax;) {
    if (at == root) {
      is = true;
      break;
    }
    if (const auto known = known_inside(at)) {
      is = *known;
      break;
    }
    passed.push_back(at);
    if (at == meta::kRootInode) break;
    const auto above = meta_.lookup({}, at, "..");
    if (!above && (above.error() == Code::not_directory || above.error() == Code::not_found)) {
      break;  // a number of something else, or of nothing
    }
    if (!above) return above.error();
    at = above->inode;
  }
  note_inside(passed, is);
  return is;
}

// stale: a kernel that has the number from before looks the name up again.
Status Limited::require_inside(InodeId directory) {
  if (!has_subtree()) return Code::ok;
  TRY_ASSIGN(const InodeId root, this->root());
  TRY_ASSIGN(const bool is, is_inside(directory, root));
  return is ? Code::ok : Code::stale;
}

Status Limited::require_named(InodeId inode) {
  if (has(inode, kProvenName)) return Code::ok;
  // Directories are judged by where they are.
  TRY_ASSIGN(const Attributes found, meta_.attributes(inode));
  if (found.type != meta::FileType::directory) return Code::stale;
  return require_inside(inode);
}

Status Limited::require_proven(InodeId inode, uint8_t bits) {
  if (has(inode, bits)) return Code::ok;
  return has(inode, kProvenName) ? Code::access_denied : Code::stale;
}

Status Limited::admit_user(Credentials& who) {
  const rights::Restriction& what = limits_->what;
  if (!what.limits_users()) return Code::ok;
  rights::User user{who.uid, who.gid};
  TRY(rights::admit(what, user, who.groups));
  who.uid = user.uid;
  who.gid = user.gid;
  who.enforce = true;
  return Code::ok;
}

}  // namespace penstock::meta_net
