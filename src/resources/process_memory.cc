#include "penstock/resources/process_memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::resources {
namespace {

constexpr const char* kMappingsFile = "/proc/sys/vm/max_map_count";
// The kernel's default.
constexpr uint64_t kMappingsDefault = 65530;

// A control group as /proc/self/cgroup names it (cgroups(7)).
struct Membership {
  bool version_2 = false;
  std::string path;  // from the root of this process's cgroup namespace
};

// "0::/a/b" of version 2, "4:cpu,memory:/a/b" of version 1; nothing for those without memory.
std::optional<Membership> parse_membership(const std::string& line) {
  const size_t first = line.find(':');
  const size_t second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
  if (controllers == ",,") return Membership{true, line.substr(second + 1)};
  if (controllers.find(",memory,") == std::string::npos) return std::nullopt;
  return Membership{false, line.substr(second + 1)};
}

struct Mount {
  std::string point;
  std::string root;  // what of its file system is there
  bool is_version_2 = false;
  bool has_memory_of_1 = false;
};

// The fourth word of a line, without its escapes, and the kind of hierarchy at the end of it.
Mount parse_group_mount(const std::string& line, const MountEntry& entry) {
  size_t begin = 0;
  for (int word = 0; word < 3; ++word) begin = line.find(' ', begin) + 1;
  const std::string root = line.substr(begin, line.find(' ', begin) - begin);
  // Read as if it were the mount point, which is escaped likewise.
  const auto plain = parse_mount(fmt::format("0 0 0:0 / {} rw - none none", root));
  const std::string options = "," + line.substr(line.rfind(' ') + 1) + ",";
  const bool has_memory = entry.type == "cgroup" && options.find(",memory,") != std::string::npos;
  return {entry.point, plain ? plain->point : "", entry.type == "cgroup2", has_memory};
}

class ControlGroups {
 public:
  explicit ControlGroups(std::string root) : root_(std::move(root)) {
    std::ifstream mounts(root_ + "/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
      auto entry = parse_mount(line);
      if (!entry) continue;
      mounts_.push_back(parse_group_mount(line, *entry));
      entries_.push_back(std::move(*entry));
    }
  }

  void bound(ProcessLimit* limit) const {
    std::ifstream groups(root_ + "/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const auto member = parse_membership(line);
      if (!member) continue;
      for (size_t i = 0; i < mounts_.size(); ++i) look_through(i, *member, limit);
    }
  }

 private:
  static bool is_of(const Mount& mount, const Membership& member) {
    return member.version_2 ? mount.is_version_2 : mount.has_memory_of_1;
  }

  // The group's directory below the mount point, "" for the mount point itself; nothing if the
  // mount shows another part of the hierarchy.
  static std::optional<std::string> place_in(const Mount& mount, const Membership& member) {
    const std::string base = mount.root == "/" ? "" : mount.root;
    if (!member.path.starts_with(base)) return std::nullopt;
    std::string below = member.path.substr(base.size());
    if (below == "/") below.clear();
    if (!below.empty() && below[0] != '/') return std::nullopt;
    // A group outside of what this process's namespace shows has no name that could be followed.
    if ((below + "/").find("/../") != std::string::npos) return std::nullopt;
    return below;
  }

  // From the group up to the mount point.
  void look_through(size_t number, const Membership& member, ProcessLimit* limit) const {
    const Mount& mount = mounts_[number];
    if (!is_of(mount, member)) return;
    const auto place = place_in(mount, member);
    if (!place) return;
    for (std::string below = *place;; below.resize(below.rfind('/'))) {
      const std::string directory = mount.point + below;
      // What another mount hides is not the group's.
      const bool is_seen = mount_of_path(entries_, directory) == &entries_[number];
      if (is_seen) look_at(directory, member.version_2, limit);
      if (below.empty()) return;
    }
  }

  // Files that are not there or say "max" limit nothing.
  void look_at(const std::string& directory, bool version_2, ProcessLimit* limit) const {
    const auto bound_by = [&](const char* name) {
      const std::string path = fmt::format("{}/{}", directory, name);
      uint64_t bytes = 0;
      std::ifstream file(root_ + path);
      if (file >> bytes && bytes < limit->amount) *limit = {bytes, path};
    };
    if (!version_2) return bound_by("memory.limit_in_bytes");
    bound_by("memory.max");
    bound_by("memory.high");
  }

  const std::string root_;
  std::vector<MountEntry> entries_;
  std::vector<Mount> mounts_;  // of the same numbers
};

}  // namespace

ProcessLimit memory_of_process(const std::string& root) {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  ProcessLimit limit{kGiB, "the machine"};
  if (pages > 0 && page_bytes > 0) {
    limit.amount = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
  }
  ControlGroups(root).bound(&limit);
  return limit;
}

ProcessLimit mappings_of_process(const std::string& root) {
  ProcessLimit limit{kMappingsDefault, kMappingsFile};
  uint64_t most = 0;
  if (std::ifstream file(root + kMappingsFile); file >> most) limit.amount = most;
  return limit;
}

}  // namespace penstock::resources
