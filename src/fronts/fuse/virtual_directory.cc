#include "virtual_directory.h"

#include "link_table.h"
#include "remove_tree.h"

#include <cstring>
#include <fmt/format.h>

#include "penstock/agent.h"

namespace penstock::fuse {
namespace {

// The directories, by number; ids of links come after.
struct FixedDirectory {
  const char* name;
  uint64_t inode;
  mode_t mode;
};
constexpr uint64_t kTop = kVirtualBit | 1;
constexpr uint64_t kRegions = kVirtualBit | 2;
constexpr uint64_t kRemovals = kVirtualBit | 3;
// Sticky: one may add links and remove one's own.
constexpr FixedDirectory kFixedDirectories[] = {
    {"iovs", kRegions, S_IFDIR | 01777},
    {"rm-rf", kRemovals, S_IFDIR | 01777},
    {"get-conf", kVirtualBit | 4, S_IFDIR | 0555},
    {"set-conf", kVirtualBit | 5, S_IFDIR | 0555},
};

struct stat stat_of(uint64_t inode, mode_t mode) {
  struct stat stat {};
  stat.st_ino = inode;
  stat.st_mode = mode;
  stat.st_nlink = S_ISDIR(mode) ? 2 : 1;
  stat.st_blksize = static_cast<blksize_t>(limits::kBlockBytes);
  return stat;
}

struct stat stat_of_link(uint64_t inode, size_t length, uint32_t uid) {
  struct stat stat = stat_of(inode, S_IFLNK | 0777);
  stat.st_size = static_cast<off_t>(length);
  stat.st_uid = uid;
  return stat;
}

// The kernel keeps no links and asks again each time: which there are depends on the calling user.
fuse_entry_param entry_of(const struct stat& stat) {
  fuse_entry_param entry{};
  entry.ino = stat.st_ino;
  entry.attr = stat;
  return entry;
}

// The directories are the same for all users as long as the mount lives: the kernel may keep them,
// so that a link costs no look at the way to it.
fuse_entry_param entry_of_directory(const struct stat& stat, const Front& front) {
  fuse_entry_param entry = entry_of(stat);
  entry.entry_timeout = entry.attr_timeout = front.cache_seconds;
  return entry;
}

}  // namespace

VirtualDirectory::VirtualDirectory(agent::Agent& agent)
    : region_links_(agent.region_links([](std::shared_ptr<resources::Accounts> accounts) {
        return std::make_shared<LinkTable>(std::move(accounts));
      })) {}

bool VirtualDirectory::is_its_name(InodeId parent, const char* name) const {
  return parent == meta::kRootInode && std::strcmp(name, kVirtualDirectory) == 0;
}

void VirtualDirectory::lookup(Call& call, uint64_t parent, const char* name) {
  if (!is_virtual(parent)) {
    call.entry(entry_of_directory(stat_of(kTop, S_IFDIR | 0555), call.front()));
    return;
  }
  if (parent == kTop) {
    for (const FixedDirectory& directory : kFixedDirectories) {
      if (std::strcmp(directory.name, name) != 0) continue;
      call.entry(entry_of_directory(stat_of(directory.inode, directory.mode), call.front()));
      return;
    }
  }
  if (parent == kRegions) {
    const auto region = region_links_->find(call.enforced_credentials(), name);
    if (region) return reply_link(call, region->name, region->target, region->uid);
  }
  call.error(ENOENT);
}

void VirtualDirectory::reply_link(Call& call, const std::string& name,
                                  const std::string& link_target, uint32_t uid) {
  const uint64_t number = hold({name, uid}, link_target);
  if (!call.entry(entry_of(stat_of_link(number, link_target.size(), uid)))) forget(number, 1);
}

uint64_t VirtualDirectory::hold(const Key& key, const std::string& link_target) {
  std::lock_guard lock(mutex_);
  const auto [found, added] = numbers_.try_emplace(key, next_number_);
  if (added) next_number_++;
  Link& link = links_[found->second];
  link.name = key.name;
  link.uid = key.uid;
  link.link_target = link_target;
  link.references++;
  return found->second;
}

void VirtualDirectory::forget(uint64_t inode, uint64_t count) {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(inode);
  if (found == links_.end()) return;
  Link& link = found->second;
  link.references -= std::min(link.references, count);
  if (link.references > 0) return;
  numbers_.erase({link.name, link.uid});
  links_.erase(found);
}

void VirtualDirectory::get_attributes(Call& call, uint64_t inode) {
  const std::optional<struct stat> stat = attributes_of(inode);
  if (!stat) return call.error(ENOENT);
  call.virtual_attributes(*stat, S_ISDIR(stat->st_mode) ? call.front().cache_seconds : 0);
}

std::optional<struct stat> VirtualDirectory::attributes_of(uint64_t inode) {
  if (inode == kTop) return stat_of(kTop, S_IFDIR | 0555);
  for (const FixedDirectory& directory : kFixedDirectories) {
    if (directory.inode == inode) return stat_of(inode, directory.mode);
  }
  std::lock_guard lock(mutex_);
  const auto found = links_.find(inode);
  if (found == links_.end()) return std::nullopt;
  return stat_of_link(inode, found->second.link_target.size(), found->second.uid);
}

void VirtualDirectory::read_link(Call& call, uint64_t inode) {
  std::string link_target;
  {
    std::lock_guard lock(mutex_);
    const auto found = links_.find(inode);
    if (found != links_.end()) link_target = found->second.link_target;
  }
  if (link_target.empty()) return call.error(ENOENT);
  call.text(link_target);
}

void VirtualDirectory::make_link(Call& call, uint64_t parent, const char* name,
                                 const char* link_target) {
  const client::Credentials maker = call.enforced_credentials();
  if (parent == kRegions) {
    const Outcome<void> linked = region_links_->add(maker, name, link_target, -1);
    if (!linked) {
      log_failure(maker, linked.error());
      return call.status(linked.error().status);
    }
    return reply_link(call, name, link_target, maker.uid);
  }
  if (parent == kRemovals) {
    const Status status = remove_tree(call.front(), maker, link_target);
    if (!status.ok()) return call.status(status);
    return reply_link(call, name, link_target, maker.uid);
  }
  call.error(EPERM);
}

// The program that makes a link is told an error number only.
void VirtualDirectory::log_failure(const client::Credentials& maker, const Failure& failure) {
  if (failure.status != Code::not_found && failure.status != Code::access_denied) return;
  log_.warning(fmt::format("link {}", maker.uid),
               fmt::format("a link of user {} to {}", maker.uid, failure.message));
}

void VirtualDirectory::unlink(Call& call, uint64_t parent, const char* name) {
  if (parent != kRegions) return call.error(parent == kRemovals ? ENOENT : EPERM);
  call.status(region_links_->remove(call.enforced_credentials(), name));
}

std::vector<VirtualEntry> VirtualDirectory::list(Call& call, uint64_t inode) {
  std::vector<VirtualEntry> entries{
      {".", inode, S_IFDIR},
      {"..", inode == kTop ? meta::kRootInode.value : kTop, S_IFDIR},
  };
  if (inode == kTop) {
    for (const FixedDirectory& directory : kFixedDirectories)
      entries.push_back({directory.name, directory.inode, S_IFDIR});
  }
  if (inode == kRegions) {
    // The link's number is given when a program looks the link up; a listing only shows that it is
    // a link.
    for (const auto& region : region_links_->list(call.enforced_credentials())) {
      entries.push_back({region.name, kVirtualBit | 1023, S_IFLNK});
    }
  }
  return entries;
}

}  // namespace penstock::fuse
