#include "superblock.h"

#include <charconv>

namespace penstock::store {
namespace {

constexpr std::string_view kFirstLine = "penstock target\n";
constexpr size_t kIdentityBytes = 1 + 4 + 16 + 4;

uint32_t checksum(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text)));
}

std::string hex_of(const std::array<uint8_t, 16>& uuid) {
  std::string text;
  for (const uint8_t byte : uuid) text += fmt::format("{:02x}", byte);
  return text;
}

// Takes `prefix`, a number and a newline off the front of `text`.
template <class T>
bool take_line(std::string_view& text, std::string_view prefix, T& value, int base) {
  if (!text.starts_with(prefix)) return false;
  const char* begin = text.data() + prefix.size();
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  if (error != std::errc() || stop == end || *stop != '\n') return false;
  text.remove_prefix(static_cast<size_t>(stop - text.data()) + 1);
  return true;
}

bool take_uuid(std::string_view& text, std::array<uint8_t, 16>& uuid) {
  constexpr std::string_view kPrefix = "uuid ";
  if (!text.starts_with(kPrefix) || text.size() < kPrefix.size() + 33) return false;
  const char* from = text.data() + kPrefix.size();
  for (uint8_t& byte : uuid) {
    const auto [stop, error] = std::from_chars(from, from + 2, byte, 16);
    if (error != std::errc() || stop != from + 2) return false;
    from += 2;
  }
  if (*from != '\n') return false;
  text.remove_prefix(kPrefix.size() + 33);
  return true;
}

}  // namespace

std::string encode_superblock(const Identity& identity, uint32_t version) {
  std::string text = fmt::format("{}version {}\nid {}\nuuid {}\n", kFirstLine, version,
                                 identity.id.value, hex_of(identity.uuid));
  text += fmt::format("crc {:08x}\n", checksum(text));
  return text;
}

Result<Identity> decode_superblock(std::string_view text, uint32_t version) {
  std::string_view rest = text;
  if (!rest.starts_with(kFirstLine)) return Code::corrupt;
  rest.remove_prefix(kFirstLine.size());
  uint32_t found = 0;
  if (!take_line(rest, "version ", found, 10)) return Code::corrupt;
  if (found != version) return Status(Code::wrong_version, found);
  Identity identity;
  if (!take_line(rest, "id ", identity.id.value, 10)) return Code::corrupt;
  if (!take_uuid(rest, identity.uuid)) return Code::corrupt;
  // Only what encode_superblock() writes is taken, to the last byte.
  if (text != encode_superblock(identity, version)) return Code::corrupt;
  return identity;
}

std::string encode_identity(const Identity& identity, uint32_t version) {
  std::string record(1, static_cast<char>(version));
  record.append(reinterpret_cast<const char*>(&identity.id.value), 4);
  record.append(reinterpret_cast<const char*>(identity.uuid.data()), identity.uuid.size());
  const uint32_t crc = checksum(record);
  record.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return record;
}

Result<Identity> decode_identity(std::string_view record, uint32_t version) {
  if (record.empty()) return Code::corrupt;
  const auto found = static_cast<uint8_t>(record[0]);
  if (found != version) return Status(Code::wrong_version, found);
  if (record.size() != kIdentityBytes) return Code::corrupt;
  Identity identity;
  std::copy_n(record.data() + 1, 4, reinterpret_cast<char*>(&identity.id.value));
  std::copy_n(record.data() + 5, 16, reinterpret_cast<char*>(identity.uuid.data()));
  if (record != encode_identity(identity, version)) return Code::corrupt;
  return identity;
}

}  // namespace penstock::store
