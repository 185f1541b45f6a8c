#include "call.h"

#include "caller.h"
#include "limits.h"

#include <algorithm>
#include <array>
#include <sys/statvfs.h>

namespace penstock::fuse {
namespace {

// Supplementary groups of a caller, as many as Linux allows.
constexpr int kGroupsMax = 65536;

timespec to_timespec(meta::FileTime time) {
  return {time.seconds(), time.nanoseconds()};
}

double to_seconds(engine::Duration time) {
  return std::chrono::duration<double>(time).count();
}

// Between nodes, and from now on.
engine::Duration shared_keep(const Front& front) {
  return std::clamp<engine::Duration>(front.files.lease_left(), engine::Duration::zero(),
                                      kSharedKeep);
}

double attribute_seconds(const meta::Attributes& attributes, const Front& front) {
  if (!front.is_shared) return front.cache_seconds;
  return attributes.kept ? to_seconds(shared_keep(front)) : 0;
}

// The time during which a reply that gives the kernel an inode is under way.
class EntryReply {
 public:
  EntryReply(KernelCache& cache, InodeId inode)
      : cache_(cache), inode_(inode), fresh_(cache.begin_entry(inode)) {}
  ~EntryReply() { cache_.end_entry(inode_, delivered_); }
  EntryReply(const EntryReply&) = delete;
  EntryReply& operator=(const EntryReply&) = delete;

  bool fresh() const { return fresh_; }
  bool deliver(bool delivered) { return delivered_ = delivered; }

 private:
  KernelCache& cache_;
  const InodeId inode_;
  const bool fresh_;
  bool delivered_ = false;
};

}  // namespace

client::Credentials Call::credentials() {
  const fuse_ctx* context = fuse_req_ctx(request_);
  client::Credentials credentials;
  credentials.uid = context->uid;
  credentials.gid = context->gid;
  credentials.enforce = false;
  credentials.umask = context->umask;
  if (front().files.is_limited()) add_groups(credentials);
  return credentials;
}

client::Credentials Call::enforced_credentials() {
  client::Credentials credentials = this->credentials();
  credentials.enforce = true;
  add_groups(credentials);
  return credentials;
}

void Call::add_groups(client::Credentials& credentials) {
  std::vector<gid_t> groups(64);
  int count = fuse_req_getgroups(request_, static_cast<int>(groups.size()), groups.data());
  if (count > static_cast<int>(groups.size()) && count <= kGroupsMax) {
    groups.resize(static_cast<size_t>(count));
    count = fuse_req_getgroups(request_, count, groups.data());
  }
  // A caller that cannot be looked at (it is in another process namespace) has none.
  const size_t known = count < 0 ? 0 : std::min(static_cast<size_t>(count), groups.size());
  credentials.groups.assign(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(known));
}

client::Credentials Call::credentials_for(const meta::Attributes& attributes) {
  const bool group_counts = (attributes.mode & (S_ISGID | S_IXGRP)) == S_ISGID;
  if (!group_counts) return credentials();
  client::Credentials credentials = enforced_credentials();
  credentials.enforce = false;
  return credentials;
}

client::Credentials Call::owner_credentials(const meta::Attributes& attributes) {
  const fuse_ctx* context = fuse_req_ctx(request_);
  const bool is_trusted = !front().is_shared || context->uid == 0 ||
                          may_act_as_owner(context->pid, attributes.uid, attributes.gid);
  return is_trusted ? credentials_for(attributes) : enforced_credentials();
}

std::optional<client::FileWriter> Call::writer(const client::OpenFile& file, bool keeps_set_ids) {
  if (!front().takes_privileges.load(std::memory_order_relaxed)) return std::nullopt;
  const bool groups = client::may_lose_privileges(file, keeps_set_ids);
  return client::FileWriter{groups ? enforced_credentials() : credentials(), keeps_set_ids};
}

// Replies that cannot be written are dropped: the caller was interrupted or the mount is gone.
// Where a reply gives the kernel a reference, the function says whether the kernel got it.
bool Call::sync_names() {
  if (!changes_names_ || !front().options.synchronous_names()) return true;
  changes_names_ = false;
  const Status synced = front().files.meta().sync();
  if (!synced.ok()) error(EIO);
  return synced.ok();
}
void Call::error(int error) {
  if (error == 0 && !sync_names()) return;
  count_error(error);
  (void)fuse_reply_err(ending(), error);
}
void Call::none() {
  fuse_reply_none(ending());
}
void Call::attributes(const meta::Attributes& attributes) {
  const double seconds = attribute_seconds(attributes, front());
  const struct stat stat = to_stat(attributes);
  (void)fuse_reply_attr(ending(), &stat, seconds);
}
void Call::virtual_attributes(const struct stat& attributes, double cache_seconds) {
  (void)fuse_reply_attr(ending(), &attributes, cache_seconds);
}
void Call::text(const std::string& link_target) {
  (void)fuse_reply_readlink(ending(), link_target.c_str());
}
bool Call::data(const void* bytes, size_t length) {
  return fuse_reply_buf(ending(), static_cast<const char*>(bytes), length) == 0;
}
void Call::written(size_t length) {
  (void)fuse_reply_write(ending(), length);
}
bool Call::open(const fuse_file_info& info) {
  return fuse_reply_open(ending(), &info) == 0;
}
bool Call::entry(const fuse_entry_param& entry) {
  if (!sync_names()) return false;
  return fuse_reply_entry(ending(), &entry) == 0;
}
bool Call::created(const fuse_entry_param& entry, const fuse_file_info& info) {
  if (!sync_names()) return false;
  return fuse_reply_create(ending(), &entry, &info) == 0;
}
void Call::statistics(const struct statvfs& statistics) {
  (void)fuse_reply_statfs(ending(), &statistics);
}
void Call::xattr_size(size_t size) {
  (void)fuse_reply_xattr(ending(), size);
}

void Call::found_at(off_t offset) {
  (void)fuse_reply_lseek(ending(), offset);
}

void Call::controlled(const void* out, size_t length) {
  (void)fuse_reply_ioctl(ending(), 0, out, length);
}

struct stat to_stat(const meta::Attributes& attributes) {
  struct stat stat {};
  stat.st_ino = attributes.inode.value;
  stat.st_mode = meta::type_bits(attributes.type) | attributes.mode;
  stat.st_nlink = attributes.links;
  stat.st_uid = attributes.uid;
  stat.st_gid = attributes.gid;
  stat.st_rdev = attributes.device;
  stat.st_size = static_cast<off_t>(attributes.length);
  stat.st_blksize = static_cast<blksize_t>(limits::kBlockBytes);
  stat.st_blocks = static_cast<blkcnt_t>(attributes.allocated / 512);
  stat.st_atim = to_timespec(attributes.accessed);
  stat.st_mtim = to_timespec(attributes.modified);
  stat.st_ctim = to_timespec(attributes.changed);
  return stat;
}

double entry_seconds(Front& front, InodeId parent, const char* name, InodeId inode) {
  if (!front.is_shared) return front.cache_seconds;
  const engine::Duration keep = shared_keep(front);
  const engine::Time until = engine::system_clock().now() + keep + kSharedKeepLate;
  return front.files.give_entry(parent, name, inode, until) ? to_seconds(keep) : 0;
}

fuse_entry_param to_entry(const meta::Attributes& attributes, const Front& front) {
  fuse_entry_param entry{};
  entry.ino = attributes.inode.value;
  // Inode ids are never used twice, so there is one generation only.
  entry.generation = 0;
  entry.attr = to_stat(attributes);
  entry.attr_timeout = attribute_seconds(attributes, front);
  entry.entry_timeout = front.cache_seconds;
  return entry;
}

void reply_entry(Call& call, const meta::Attributes& attributes, double seconds) {
  Front& front = call.front();
  const auto reply_with = [&](EntryReply& reply, const meta::Attributes& with) {
    fuse_entry_param entry = to_entry(with, front);
    entry.entry_timeout = seconds;
    reply.deliver(call.entry(entry));
  };
  EntryReply reply(*front.cache, attributes.inode);
  if (!reply.fresh()) return reply_with(reply, attributes);
  const auto watched = front.files.attributes(attributes.inode);
  if (!watched) return call.status(watched.error());
  reply_with(reply, *watched);
}
void reply_entry(Call& call, const meta::Attributes& attributes) {
  reply_entry(call, attributes, call.front().cache_seconds);
}

bool reply_created(Call& call, const meta::Attributes& attributes, const fuse_file_info& info) {
  Front& front = call.front();
  EntryReply reply(*front.cache, attributes.inode);
  if (!reply.fresh()) return reply.deliver(call.created(to_entry(attributes, front), info));
  const auto watched = front.files.attributes(attributes.inode);
  if (!watched) {
    call.status(watched.error());
    return false;
  }
  return reply.deliver(call.created(to_entry(*watched, front), info));
}

}  // namespace penstock::fuse
