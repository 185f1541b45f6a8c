#include "mount_table.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::usrbio {

namespace {

// Takes the next word off `rest`, which has one space between words.
std::string_view next_word(std::string_view& rest) {
  const size_t end = rest.find(' ');
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return word;
}

std::optional<dev_t> parse_device(std::string_view word) {
  const size_t colon = word.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  unsigned major_number = 0;
  unsigned minor_number = 0;
  const char* end = word.data() + word.size();
  const auto first = std::from_chars(word.data(), word.data() + colon, major_number);
  const auto second = std::from_chars(word.data() + colon + 1, end, minor_number);
  if (first.ec != std::errc() || first.ptr != word.data() + colon || second.ec != std::errc() ||
      second.ptr != end) {
    return std::nullopt;
  }
  return makedev(major_number, minor_number);
}

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// Whether `path` is `prefix` or lies below it.
bool lies_in(std::string_view path, std::string_view prefix) {
  if (prefix == "/") return true;
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

std::string read_whole(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

// The path that the kernel knows `path` by, or empty when a component is missing.
std::string real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return {};
  std::string result(resolved);
  ::free(resolved);
  return result;
}

// Appends one component to a canonical path, "." and ".." included.
void append_component(std::string& path, std::string_view component) {
  if (component.empty() || component == ".") return;
  if (component == "..") {
    const size_t slash = path.rfind('/');
    path.resize(slash == 0 ? 1 : slash);
    return;
  }
  if (path != "/") path += '/';
  path += component;
}

}  // namespace

bool is_our_type(std::string_view type) {
  return type == "fuse.penstock" || type == "fuse.hf3fs";
}

std::string unescape_octal(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::optional<MountEntry> parse_mount_line(std::string_view line) {
  std::string_view rest = line;
  next_word(rest);  // mount id
  next_word(rest);  // parent id
  const std::optional<dev_t> device = parse_device(next_word(rest));
  next_word(rest);  // root inside the file system
  const std::string_view point = next_word(rest);
  next_word(rest);  // options
  // Any number of optional words, then a lone "-".
  while (!rest.empty()) {
    if (next_word(rest) == "-") break;
  }
  const std::string_view type = next_word(rest);
  if (!device || type.empty() || !point.starts_with('/')) return std::nullopt;
  return MountEntry{unescape_octal(point), unescape_octal(type), *device};
}

const MountEntry* mount_of_path(const std::vector<MountEntry>& mounts, std::string_view path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (!lies_in(path, mount.mount_point)) continue;
    if (best == nullptr || mount.mount_point.size() >= best->mount_point.size()) best = &mount;
  }
  return best;
}

const MountEntry* mount_of_device(const std::vector<MountEntry>& mounts, dev_t device) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (mount.device == device) best = &mount;
  }
  return best;
}

std::vector<MountEntry> read_mounts() {
  std::vector<MountEntry> mounts;
  const std::string text = read_whole("/proc/self/mountinfo");
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (auto mount = parse_mount_line(rest.substr(0, end))) mounts.push_back(std::move(*mount));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return mounts;
}

std::string canonical_path(std::string_view path) {
  if (path.empty() || path.size() > PATH_MAX || path.find('\0') != std::string_view::npos) {
    return {};
  }
  // Shorten from the end until the kernel knows it, then put back what it does not.
  std::string known(path);
  std::string result;
  size_t cut = path.size();
  while (result.empty()) {
    result = real_path(known.empty() ? "." : known);
    if (!result.empty()) break;
    if (known.empty() || known == "/") return {};
    while (cut > 0 && path[cut - 1] == '/') --cut;
    while (cut > 0 && path[cut - 1] != '/') --cut;
    known = path.substr(0, cut);
  }
  std::string_view rest = path.substr(std::min(cut, path.size()));
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    append_component(result, rest.substr(0, slash));
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
  }
  return result;
}

std::optional<std::string> mount_point_of(std::string_view path) {
  const std::string canonical = canonical_path(path);
  if (canonical.empty()) return std::nullopt;
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* mount = mount_of_path(mounts, canonical);
  if (mount == nullptr || !is_our_type(mount->type)) return std::nullopt;
  return mount->mount_point;
}

std::optional<dev_t> device_of_descriptor(int fd) {
  if (fd < 0) return std::nullopt;
  struct statx status {};
  // The device number is the mount's, so the file server need not be asked.
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0) {
    return std::nullopt;
  }
  const dev_t device = makedev(status.stx_dev_major, status.stx_dev_minor);
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* mount = mount_of_device(mounts, device);
  if (mount == nullptr || !is_our_type(mount->type)) return std::nullopt;
  return device;
}

}  // namespace penstock::usrbio
