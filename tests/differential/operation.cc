#include "operation.h"

#include <charconv>
#include <fmt/core.h>
#include <sstream>

namespace penstock::differential {
namespace {

struct KindWords {
  std::string_view name;
  std::array<std::string_view, 4> numbers{};
};

constexpr std::array<KindWords, kKinds> kKindWords{{
    {"open", {"flags", "mode"}},
    {"mkdir", {"mode"}},
    {"rmdir", {}},
    {"unlink", {}},
    {"rename", {"flags"}},
    {"link", {"flags"}},
    {"link_file", {}},
    {"symlink", {}},
    {"readlink", {"size"}},
    {"mknod", {"mode", "device"}},
    {"truncate", {"length"}},
    {"chmod", {"mode"}},
    {"chown", {"user", "group"}},
    {"utimens", {"atime", "mtime", "nanoseconds"}},
    {"access", {"mode", "flags"}},
    {"set_xattr", {"size", "flags", "seed"}},
    {"get_xattr", {"size"}},
    {"remove_xattr", {}},
    {"list_xattr", {"size"}},
    {"set_acl", {"default", "seed"}},
    {"stat", {"flags"}},
    {"list", {}},
    {"statfs", {}},
    {"close", {}},
    {"dup", {}},
    {"read", {"length"}},
    {"write", {"length", "seed"}},
    {"pread", {"length", "offset"}},
    {"pwrite", {"length", "offset", "seed"}},
    {"pwritev2", {"length", "offset", "seed", "flags"}},
    {"ftruncate", {"length"}},
    {"fallocate", {"mode", "offset", "length"}},
    {"seek", {"offset", "whence"}},
    {"fchmod", {"mode"}},
    {"fchown", {"user", "group"}},
    {"futimens", {"atime", "mtime", "nanoseconds"}},
    {"fsync", {"data"}},
    {"flock", {"operation"}},
    {"lock", {"command", "type", "start", "length"}},
    {"copy_range", {"length", "from", "to"}},
    {"send_file", {"length", "from"}},
    {"get_flags", {}},
    {"set_flags", {"flags"}},
    {"get_fl", {}},
    {"set_fl", {"flags"}},
    {"advise", {"offset", "length"}},
    {"map", {"offset", "length", "writable"}},
    {"map_write", {"offset", "length", "seed"}},
    {"map_read", {"offset", "length"}},
    {"map_sync", {"flags"}},
    {"unmap", {}},
    {"open_stream", {}},
    {"read_stream", {"entries"}},
    {"seek_stream", {"entry"}},
    {"close_stream", {}},
    {"umask", {"mask"}},
    {"relax", {}},
    {"compare", {}},
    {"lose", {"how", "milliseconds", "synced"}},
    {"restore", {}},
}};

// Names may hold anything; in text, what would break a line apart is written as %XX, and a long run
// of one character as its count.
std::string escaped(std::string_view path) {
  std::string text;
  for (size_t i = 0; i < path.size();) {
    size_t run = 1;
    while (i + run < path.size() && path[i + run] == path[i]) run++;
    const auto byte = static_cast<unsigned char>(path[i]);
    if (run > 20) {
      text += fmt::format("{{{}*{}}}", run, path[i]);
      i += run;
      continue;
    }
    const bool plain = byte > ' ' && byte < 127 && byte != '%' && byte != '{';
    text += plain ? std::string(1, path[i]) : fmt::format("%{:02x}", byte);
    i++;
  }
  return text;
}

std::optional<int64_t> number_of(std::string_view text, int base = 10) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '%') {
      const auto byte = number_of(text.substr(i + 1, 2), 16);
      if (!byte) return std::nullopt;
      path += static_cast<char>(*byte);
      i += 2;
    } else if (text[i] == '{') {
      const size_t star = text.find('*', i), end = text.find('}', i);
      if (star == std::string_view::npos || end != star + 2) return std::nullopt;
      const auto run = number_of(text.substr(i + 1, star - i - 1));
      if (!run || *run < 0 || *run > 8192) return std::nullopt;
      path.append(static_cast<size_t>(*run), text[star + 1]);
      i = end;
    } else {
      path += text[i];
    }
  }
  return path;
}

bool set_word(Operation& operation, std::string_view name, std::string_view value) {
  if (name == "path" || name == "path2") {
    const auto path = unescaped(value);
    if (!path) return false;
    (name == "path" ? operation.path : operation.path2) = *path;
    return true;
  }
  const auto number = number_of(value);
  if (!number) return false;
  const auto below = [&](int bound) { return *number >= -1 && *number < bound; };
  if (name == "at") {
    operation.at = static_cast<int>(*number);
    return below(kFiles);
  }
  if (name == "mount") {
    operation.mount = static_cast<int>(*number);
    return *number >= 0 && below(kMountsMax);
  }
  if (name == "slot" || name == "other") {
    (name == "slot" ? operation.slot : operation.other) = static_cast<int>(*number);
    return below(64) && *number >= 0;
  }
  const KindWords& words = kKindWords[static_cast<size_t>(operation.kind)];
  for (size_t i = 0; i < words.numbers.size(); i++) {
    if (words.numbers[i] != name) continue;
    operation.numbers[i] = *number;
    return true;
  }
  return false;
}

}  // namespace

std::string_view name_of(Kind kind) {
  return kKindWords[static_cast<size_t>(kind)].name;
}

bool one_in(const Operation& operation, uint64_t n) {
  auto sum = static_cast<uint64_t>(operation.kind) * 31 + static_cast<uint64_t>(operation.slot);
  for (const int64_t number : operation.numbers) sum = sum * 31 + static_cast<uint64_t>(number);
  for (const char byte : operation.path) sum = sum * 31 + static_cast<unsigned char>(byte);
  return (sum * 0x9e3779b97f4a7c15ULL >> 32) % n == 0;
}

std::string to_text(const Operation& operation) {
  std::string text = fmt::format("{} {}", operation.actor, name_of(operation.kind));
  if (operation.mount != 0) text += fmt::format(" mount={}", operation.mount);
  if (operation.at >= 0) text += fmt::format(" at={}", operation.at);
  if (operation.slot != 0) text += fmt::format(" slot={}", operation.slot);
  if (operation.other != 0) text += fmt::format(" other={}", operation.other);
  if (!operation.path.empty()) text += " path=" + escaped(operation.path);
  if (!operation.path2.empty()) text += " path2=" + escaped(operation.path2);
  const KindWords& words = kKindWords[static_cast<size_t>(operation.kind)];
  for (size_t i = 0; i < words.numbers.size(); i++) {
    if (words.numbers[i].empty() || operation.numbers[i] == 0) continue;
    text += fmt::format(" {}={}", words.numbers[i], operation.numbers[i]);
  }
  return text;
}

std::optional<Operation> operation_of(std::string_view line) {
  std::istringstream words{std::string(line)};
  unsigned actor = 0;
  std::string kind, word;
  if (!(words >> actor >> kind) || actor >= kActors) return std::nullopt;
  Operation operation;
  operation.actor = static_cast<uint8_t>(actor);
  size_t index = 0;
  while (index < kKinds && kKindWords[index].name != kind) index++;
  if (index == kKinds) return std::nullopt;
  operation.kind = static_cast<Kind>(index);
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::string_view view = word;
    if (!set_word(operation, view.substr(0, equals), view.substr(equals + 1))) return std::nullopt;
  }
  return operation;
}

}  // namespace penstock::differential
