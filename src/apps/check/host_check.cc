#include "check/host_check.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <linux/magic.h>
#include <optional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utility>

#include "penstock/base.h"
#include "penstock/console.h"

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;

// A node with many sessions holds a few descriptors for each; below this, those beyond hundreds are
// refused.
constexpr uint64_t kDescriptorsWanted = 65'536;
// Linux's own default; sessions share out what a process may have.
constexpr uint64_t kMappingsWanted = 65'530;
// Regions beyond it are used without being registered, which costs processor time.
constexpr uint64_t kLockedBytesWanted = kGiB;

// The first line of a file; nothing if it cannot be read.
std::optional<std::string> line_of(const HostCheckOptions& options, const std::string& path) {
  std::ifstream file(options.root + path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> number_of(const HostCheckOptions& options, const std::string& path) {
  const auto line = line_of(options, path);
  if (!line || line->empty() || line->find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::strtoull(line->c_str(), nullptr, 10);
}

// Of "always [madvise] never" the word in brackets.
std::string chosen(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  return begin == std::string::npos || end <= begin ? line
                                                    : line.substr(begin + 1, end - begin - 1);
}

bool exists(const HostCheckOptions& options, const std::string& path) {
  std::error_code error;
  return fs::exists(options.root + path, error);
}

Finding io_uring_of(const HostCheckOptions& options) {
  const uint64_t disabled = number_of(options, "proc/sys/kernel/io_uring_disabled").value_or(0);
  if (disabled == 2 || (disabled == 1 && !options.is_root)) {
    return {"kernel", "io_uring", Verdict::bad,
            fmt::format(
                "switched off (kernel.io_uring_disabled is {}): disks go over threads, much slower",
                disabled),
            "sysctl -w kernel.io_uring_disabled=0"};
  }
  // Asked for nothing, a kernel that has it says EFAULT; a container's filter says EPERM.
  if (::syscall(SYS_io_uring_setup, 1, nullptr) < 0 && errno != EFAULT) {
    const bool is_filtered = errno == EPERM || errno == EACCES;
    return {"kernel", "io_uring", Verdict::bad,
            fmt::format("refused: {}: disks go over threads, much slower", std::strerror(errno)),
            is_filtered
                ? "docker run --security-opt seccomp=unconfined ... (or a profile that allows "
                  "io_uring_setup, io_uring_enter and io_uring_register)"
                : "a kernel with CONFIG_IO_URING"};
  }
  return {"kernel", "io_uring", Verdict::good, "allowed", ""};
}

Finding huge_pages_of(const HostCheckOptions& options) {
  const auto line = line_of(options, "sys/kernel/mm/transparent_hugepage/enabled");
  if (!line) {
    return {"kernel", "huge pages", Verdict::note, "the kernel has no transparent huge pages", ""};
  }
  if (chosen(*line) == "never") {
    return {"kernel", "huge pages", Verdict::note,
            "transparent huge pages are off: large memory costs more table walks",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
  }
  return {"kernel", "huge pages", Verdict::good, "transparent: " + chosen(*line), ""};
}

std::string limit_text(rlim_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return bytes ? console::human_bytes(static_cast<double>(limit)) : std::to_string(limit);
}

Finding limit_of(const char* what, int resource, uint64_t wanted, const char* item, bool bytes,
                 const char* effect) {
  rlimit limit{};
  (void)::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  Finding finding{"limits", what, Verdict::good, limit_text(limit.rlim_max, bytes), ""};
  if (limit.rlim_max >= wanted) return finding;
  finding.verdict = Verdict::note;
  finding.found += std::string(": ") + effect;
  // limits.conf counts locked memory in KiB.
  finding.mend = fmt::format(
      "printf '* hard {0} {1}\\n* soft {0} {1}\\nroot hard {0} {1}\\nroot soft {0} {1}\\n' >> "
      "/etc/security/limits.d/penstock.conf, then log in again",
      item, bytes ? "unlimited" : std::to_string(wanted));
  return finding;
}

const char* file_system_name(long type) {
  switch (static_cast<unsigned long>(type)) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case XFS_SUPER_MAGIC:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case FUSE_SUPER_MAGIC:
      return "fuse";
    default:
      return "another file system";
  }
}

Finding direct_io_of(const std::string& directory) {
  Finding finding{"disk", "O_DIRECT", Verdict::good, "", ""};
  struct statfs facts {};
  if (::statfs(directory.c_str(), &facts) != 0) {
    return {"disk", "O_DIRECT", Verdict::bad, directory + ": " + std::strerror(errno),
            "mkdir -p " + directory};
  }
  finding.found = fmt::format("{} is {}", directory, file_system_name(facts.f_type));
  const UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  if (file) return finding;
  const int error = errno;
  if (error == EOPNOTSUPP || error == EISDIR) {
    // A file system without nameless files says nothing of O_DIRECT thereby.
    finding.found += "; not tried, as it has no O_TMPFILE ('penstock status' tells of a store)";
    return finding;
  }
  finding.verdict = Verdict::note;
  finding.found += fmt::format(", which refuses O_DIRECT ({}): bytes go through the page cache",
                               std::strerror(error));
  finding.mend = "keep the store on ext4 or xfs: penstock check --dir DIR looks at another place";
  return finding;
}

// The directory of a disk in sysfs, also for a partition; empty for what is no block device.
std::string queue_of(const HostCheckOptions& options, const struct stat& facts) {
  const std::string device =
      fmt::format("{}sys/dev/block/{}:{}", options.root, major(facts.st_dev), minor(facts.st_dev));
  std::error_code error;
  for (const char* queue : {"/queue", "/../queue"}) {
    if (fs::exists(device + queue, error)) return fs::canonical(device + queue, error).string();
  }
  return "";
}

Finding write_cache_of(const HostCheckOptions& options) {
  Finding finding{"disk", "write cache", Verdict::good, "not known: no local block device", ""};
  struct stat facts {};
  if (::stat(options.directory.c_str(), &facts) != 0) return finding;
  const std::string queue = queue_of(options, facts);
  if (queue.empty()) return finding;
  const auto text = [&](const char* name) {
    std::ifstream file(queue + "/" + name);
    std::string line;
    std::getline(file, line);
    return line;
  };
  const std::string cache = text("write_cache");
  finding.found = cache.empty() ? "not told by the kernel" : cache;
  if (cache == "write back") finding.found += ": a durable write waits for a flush";
  if (cache == "write through") {
    finding.found +=
        ": flushes cost nothing, which only a disk without a cache, or with "
        "capacitors, may say";
  }
  if (text("rotational") == "1") {
    finding.verdict = Verdict::note;
    finding.found += "; the kernel takes it for a rotating disk";
  }
  return finding;
}

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::string rest = std::string(path != nullptr ? path : "") + ":/usr/sbin:/sbin:";
  for (size_t end = 0; (end = rest.find(':')) != std::string::npos; rest.erase(0, end + 1)) {
    if (::access((rest.substr(0, end) + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

bool allows_others(const HostCheckOptions& options) {
  std::ifstream file(options.root + "etc/fuse.conf");
  for (std::string line; std::getline(file, line);) {
    line.erase(std::remove_if(line.begin(), line.end(), ::isspace), line.end());
    if (line == "user_allow_other") return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> check_kernel(const HostCheckOptions& options) {
  std::vector<Finding> out;
  const std::string release = line_of(options, "proc/sys/kernel/osrelease").value_or("unknown");
  const bool is_old = std::strtod(release.c_str(), nullptr) < 5 ||
                      (release.starts_with("5.") && std::atoi(release.c_str() + 2) < 10);
  out.push_back({"kernel", "release", is_old ? Verdict::bad : Verdict::good,
                 "Linux " + release + (is_old ? ", older than 5.10" : ""),
                 is_old ? "apt-get install linux-image-amd64, then reboot" : ""});
  out.push_back(io_uring_of(options));
  out.push_back(huge_pages_of(options));
  return out;
}

std::vector<Finding> check_limits(const HostCheckOptions& options) {
  std::vector<Finding> out;
  out.push_back(limit_of("open files (nofile)", RLIMIT_NOFILE, kDescriptorsWanted, "nofile", false,
                         "many sessions and open files are refused"));
  out.push_back(limit_of("locked memory (memlock)", RLIMIT_MEMLOCK, kLockedBytesWanted, "memlock",
                         true,
                         "regions beyond it are pinned for each operation, which costs time"));
  const auto mappings = number_of(options, "proc/sys/vm/max_map_count");
  const bool is_low = mappings.value_or(kMappingsWanted) < kMappingsWanted;
  out.push_back({"limits", "mappings (vm.max_map_count)", is_low ? Verdict::bad : Verdict::good,
                 mappings ? std::to_string(*mappings) : "not told",
                 is_low ? "sysctl -w vm.max_map_count=262144" : ""});
  return out;
}

std::vector<Finding> check_disk(const HostCheckOptions& options) {
  return {direct_io_of(options.directory), write_cache_of(options)};
}

std::vector<Finding> check_mounting(const HostCheckOptions& options) {
  std::vector<Finding> out;
  const bool has_device = exists(options, "dev/fuse");
  out.push_back({"mounts", "/dev/fuse", has_device ? Verdict::good : Verdict::bad,
                 has_device ? "there" : "not there: nothing can be mounted",
                 has_device ? ""
                            : "modprobe fuse (in a container: docker run --device /dev/fuse "
                              "--cap-add SYS_ADMIN ...)"});
  const bool has_helper = in_path("fusermount3");
  const Verdict without = options.is_root ? Verdict::note : Verdict::bad;
  out.push_back({"mounts", "fusermount3", has_helper ? Verdict::good : without,
                 has_helper ? "there" : "not there: only root can mount",
                 has_helper ? "" : "apt-get install fuse3"});
  const bool is_needed = !options.is_root && !allows_others(options);
  out.push_back({"mounts", "user_allow_other", is_needed ? Verdict::note : Verdict::good,
                 options.is_root ? "not needed by root"
                 : is_needed
                     ? "not set in /etc/fuse.conf: mounts of ordinary users are theirs alone"
                     : "set",
                 is_needed ? "echo user_allow_other >> /etc/fuse.conf" : ""});
  return out;
}

std::vector<Finding> check_host(const HostCheckOptions& options) {
  std::vector<Finding> out;
  for (const auto part :
       {check_kernel, check_limits, check_disk, check_mounting, check_gpu_sharing}) {
    for (Finding& finding : part(options)) out.push_back(std::move(finding));
  }
  return out;
}

bool is_well(const std::vector<Finding>& findings) {
  return std::ranges::none_of(findings,
                              [](const Finding& one) { return one.verdict == Verdict::bad; });
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string out, area;
  for (const Finding& one : findings) {
    if (one.area != area) out += (area.empty() ? "" : "\n") + one.area + "\n";
    area = one.area;
    const char* const mark = one.verdict == Verdict::bad    ? "BAD "
                             : one.verdict == Verdict::note ? "note"
                                                            : "ok  ";
    out += fmt::format("  {}  {}: {}\n", mark, one.what, one.found);
    if (!one.mend.empty()) out += fmt::format("        mend: {}\n", one.mend);
  }
  return out;
}

Json json_of(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& one : findings) {
    const char* const verdict = one.verdict == Verdict::bad    ? "bad"
                                : one.verdict == Verdict::note ? "note"
                                                               : "ok";
    list.push_back({{"area", one.area},
                    {"what", one.what},
                    {"verdict", verdict},
                    {"found", one.found},
                    {"mend", one.mend}});
  }
  return {{"well", is_well(findings)}, {"findings", list}};
}

}  // namespace penstock::apps
