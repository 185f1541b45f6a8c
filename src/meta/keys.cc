#include "penstock/meta/keys.h"

#include <algorithm>
#include <fmt/core.h>

namespace penstock::meta {
namespace {

void append_big_endian(std::string& out, uint64_t value) {
  char bytes[sizeof value];
  for (char& byte : bytes) {
    byte = static_cast<char>(value >> 56);
    value <<= 8;
  }
  out.append(bytes, sizeof bytes);
}

uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

constexpr size_t kIdBytes = 8;

}  // namespace

std::string Keys::of(char kind, InodeId inode, std::string_view rest) const {
  std::string key;
  // What comes behind it, too: a second number.
  key.reserve(prefix_.size() + 1 + kIdBytes + std::max(rest.size(), kIdBytes));
  key.append(prefix_);
  key.push_back(kind);
  append_big_endian(key, inode.value);
  key.append(rest);
  return key;
}

std::string Keys::cookie(InodeId parent, uint64_t cookie) const {
  std::string key = of('C', parent);
  append_big_endian(key, cookie);
  return key;
}

std::string Keys::quota(QuotaSubject subject) const {
  std::string key = prefix_ + 'Q';
  key.push_back(static_cast<char>(subject.kind));
  append_big_endian(key, subject.id);
  return key;
}

std::string Keys::usage(QuotaSubject subject, uint64_t lane) const {
  std::string key = prefix_ + 'U';
  key.push_back(static_cast<char>(subject.kind));
  append_big_endian(key, subject.id);
  append_big_endian(key, lane);
  return key;
}

std::string Keys::names(InodeId inode, InodeId directory) const {
  std::string key = of('L', inode);
  append_big_endian(key, directory.value);
  return key;
}

std::string Keys::system(std::string_view name) const {
  std::string key = prefix_ + 'S';
  key.append(name);
  return key;
}

std::string Keys::end() const {
  std::string end = prefix_;
  while (!end.empty() && static_cast<uint8_t>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(end.back() + 1);
  return end;
}

std::optional<InodeId> Keys::inode_of(std::string_view key) const {
  if (key.size() < prefix_.size() + 1 + kIdBytes) return std::nullopt;
  return InodeId(big_endian(key.substr(prefix_.size() + 1, kIdBytes)));
}

std::optional<uint64_t> Keys::cookie_of(std::string_view key) const {
  const size_t at = prefix_.size() + 1 + kIdBytes;
  if (key.size() != at + kIdBytes) return std::nullopt;
  return big_endian(key.substr(at));
}

std::optional<std::string_view> Keys::name_of(std::string_view key) const {
  const size_t at = prefix_.size() + 1 + kIdBytes;
  if (key.size() <= at) return std::nullopt;
  return key.substr(at);
}

std::optional<QuotaSubject> Keys::subject_of(std::string_view key) const {
  const size_t at = prefix_.size() + 1;
  if (key.size() != at + 1 + kIdBytes) return std::nullopt;
  const auto kind = static_cast<QuotaSubject::Kind>(key[at]);
  if (kind != QuotaSubject::Kind::directory && kind != QuotaSubject::Kind::user)
    return std::nullopt;
  return QuotaSubject{kind, big_endian(key.substr(at + 1))};
}

std::string printable(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c >= ' ' && c <= '~' && c != '\\') {
      out.push_back(c);
    } else {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    }
  }
  return out;
}

}  // namespace penstock::meta
