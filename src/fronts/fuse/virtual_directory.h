// `3fs-virt`, the directory through which USRBIO's programs register memory. Nothing in it is
// stored: inode numbers have their top bit set, which no real one has.
//
//   iovs/      a symbolic link made here registers the memory that it points to, for its maker;
//              removing the link ends that. Users see their own links, root sees all.
//   rm-rf/     a symbolic link made here removes what it points to, a path of this mount, with
//              everything below, in the maker's name. The link itself never appears.
//   get-conf/, set-conf/   empty; programs look for them.
#pragma once

#include "call.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/agent.h"
#include "penstock/fuse.h"
#include "penstock/resources.h"
#include "penstock/sessions.h"

namespace penstock::fuse {

inline constexpr uint64_t kVirtualBit = uint64_t{1} << 63;
constexpr bool is_virtual(uint64_t inode) {
  return (inode & kVirtualBit) != 0;
}

struct VirtualEntry {
  std::string name;
  uint64_t inode = 0;
  mode_t type = 0;
};

// Thread safe. The functions that take a Call end it.
class VirtualDirectory {
 public:
  explicit VirtualDirectory(agent::Agent& agent);

  // Whether this is the name of the virtual directory in the root.
  bool is_its_name(InodeId parent, const char* name) const;

  void lookup(Call& call, uint64_t parent, const char* name);
  void forget(uint64_t inode, uint64_t count);
  void get_attributes(Call& call, uint64_t inode);
  // Nothing if there is none of this number.
  std::optional<struct stat> attributes_of(uint64_t inode);
  void read_link(Call& call, uint64_t inode);
  void make_link(Call& call, uint64_t parent, const char* name, const char* link_target);
  void unlink(Call& call, uint64_t parent, const char* name);
  std::vector<VirtualEntry> list(Call& call, uint64_t inode);

 private:
  // A link of iovs/ (or a moment of rm-rf/) that the kernel holds references to.
  struct Link {
    std::string name;
    std::string link_target;
    uint32_t uid = 0;
    uint64_t references = 0;
  };
  struct Key {
    std::string name;
    uint32_t uid = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void reply_link(Call& call, const std::string& name, const std::string& link_target,
                  uint32_t uid);
  void log_failure(const client::Credentials& maker, const Failure& failure);
  uint64_t hold(const Key& key, const std::string& link_target);

  // Of all mounts of the agent.
  const std::shared_ptr<sessions::RegionLinks> region_links_;
  engine::RepeatedLog log_;
  std::mutex mutex_;
  std::map<uint64_t, Link> links_;
  std::map<Key, uint64_t> numbers_;
  uint64_t next_number_ = kVirtualBit | 1024;
};

}  // namespace penstock::fuse
