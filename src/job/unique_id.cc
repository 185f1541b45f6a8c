#include "unique_id.h"

#include <cstring>

namespace penstock::job {
namespace {

constexpr uint32_t kMagicOfIds = 0x55554e50;  // "PNUU"
constexpr uint16_t kVersionOfIds = 1;

}  // namespace

UniqueId encode(const Invitation& invitation) {
  ASSERT(invitation.addresses.size() <= kAddressesMax);
  ByteWriter to;
  to.number(kMagicOfIds);
  to.number(kVersionOfIds);
  to.number(invitation.port);
  to.raw(invitation.secret);
  to.raw(invitation.name);
  to.number(static_cast<uint8_t>(invitation.addresses.size()));
  for (const HostAddress& host : invitation.addresses) {
    to.number(host.family);
    to.raw(host.bytes);
  }
  UniqueId id;
  constexpr size_t kChecked = sizeof id.bytes - sizeof(uint32_t);
  static_assert(33 + kAddressesMax * 17 <= kChecked);
  std::memcpy(id.bytes.data(), to.bytes().data(), to.bytes().size());
  const uint32_t checksum = crc32c(Bytes(id.bytes).first(kChecked));
  std::memcpy(id.bytes.data() + kChecked, &checksum, sizeof checksum);
  return id;
}

std::optional<Invitation> decode(const UniqueId& id) {
  ByteReader from(id.bytes);
  Invitation invitation;
  if (from.number<uint32_t>() != kMagicOfIds || from.number<uint16_t>() != kVersionOfIds) {
    return std::nullopt;
  }
  invitation.port = from.number<uint16_t>();
  std::memcpy(invitation.secret.data(), from.raw(kSecretBytes).data(), kSecretBytes);
  std::memcpy(invitation.name.data(), from.raw(8).data(), 8);
  const auto count = from.number<uint8_t>();
  if (count == 0 || count > kAddressesMax) return std::nullopt;
  for (uint8_t i = 0; i < count; ++i) {
    HostAddress host;
    host.family = from.number<uint8_t>();
    std::memcpy(host.bytes.data(), from.raw(16).data(), 16);
    if (host.family != 4 && host.family != 6) return std::nullopt;
    invitation.addresses.push_back(host);
  }
  constexpr size_t kChecked = sizeof id.bytes - sizeof(uint32_t);
  uint32_t checksum = 0;
  std::memcpy(&checksum, id.bytes.data() + kChecked, sizeof checksum);
  if (checksum != crc32c(Bytes(id.bytes).first(kChecked))) return std::nullopt;
  return invitation;
}

}  // namespace penstock::job
