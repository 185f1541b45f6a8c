#include "penstock/base/mounts.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <sys/sysmacros.h>

namespace penstock {

namespace {

// Takes the next word off `rest`, which has one space between words.
std::string_view next_word(std::string_view& rest) {
  const size_t end = rest.find(' ');
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return word;
}

std::optional<unsigned> number_of(std::string_view word) {
  unsigned number = 0;
  const char* const end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

std::optional<dev_t> device_of(std::string_view word) {
  const size_t colon = word.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<unsigned> major_number = number_of(word.substr(0, colon));
  const std::optional<unsigned> minor_number = number_of(word.substr(colon + 1));
  if (!major_number || !minor_number) return std::nullopt;
  return makedev(*major_number, *minor_number);
}

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// The kernel writes blanks and backslashes as \040 and the like.
std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Whether `path` is `directory` or lies below it.
bool lies_in(std::string_view path, std::string_view directory) {
  if (directory == "/") return true;
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

}  // namespace

std::optional<MountEntry> parse_mount(std::string_view line) {
  std::string_view rest = line;
  next_word(rest);  // mount id
  next_word(rest);  // parent id
  const std::optional<dev_t> device = device_of(next_word(rest));
  next_word(rest);  // root inside the file system
  const std::string_view point = next_word(rest);
  next_word(rest);  // options
  // Any number of optional words, then a lone "-".
  while (!rest.empty() && next_word(rest) != "-") {
  }
  const std::string_view type = next_word(rest);
  const std::string_view source = next_word(rest);
  if (!device || type.empty() || !point.starts_with('/')) return std::nullopt;
  return MountEntry{unescape(point), unescape(type), unescape(source), *device};
}

std::vector<MountEntry> parse_mounts(std::string_view text) {
  std::vector<MountEntry> mounts;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (auto mount = parse_mount(text.substr(0, end))) mounts.push_back(std::move(*mount));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return mounts;
}

std::vector<MountEntry> read_mounts() {
  const std::ifstream file("/proc/self/mountinfo");
  std::stringstream text;
  text << file.rdbuf();
  return parse_mounts(text.str());
}

const MountEntry* mount_of_path(const std::vector<MountEntry>& mounts, std::string_view path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (!lies_in(path, mount.point)) continue;
    if (best == nullptr || mount.point.size() >= best->point.size()) best = &mount;
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

const MountEntry* mount_at(const std::vector<MountEntry>& mounts, std::string_view point) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (mount.point == point) best = &mount;
  }
  return best;
}

}  // namespace penstock
