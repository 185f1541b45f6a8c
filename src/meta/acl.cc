#include "acl.h"

#include "permissions.h"

#include <cstring>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

// As in linux/posix_acl.h and linux/posix_acl_xattr.h.
constexpr uint32_t kAclVersion = 2;
enum Tag : uint16_t {
  kUserObject = 0x01,
  kUser = 0x02,
  kGroupObject = 0x04,
  kGroup = 0x08,
  kMask = 0x10,
  kOther = 0x20,
};
constexpr uint32_t kNoId = UINT32_MAX;

struct Entry {
  uint16_t tag = 0;
  uint16_t permissions = 0;
  uint32_t id = 0;
};
static_assert(sizeof(Entry) == kAclEntryBytes);

size_t count(std::string_view acl) {
  ASSERT(acl.size() >= kAclHeaderBytes);
  return (acl.size() - kAclHeaderBytes) / kAclEntryBytes;
}
Entry at(std::string_view acl, size_t index) {
  ASSERT(index < count(acl));
  Entry entry;
  std::memcpy(&entry, acl.data() + kAclHeaderBytes + index * kAclEntryBytes, sizeof entry);
  return entry;
}
void put(std::string& acl, size_t index, const Entry& entry) {
  ASSERT(index < count(acl));
  std::memcpy(acl.data() + kAclHeaderBytes + index * kAclEntryBytes, &entry, sizeof entry);
}
bool is_named(uint16_t tag) {
  return tag == kUser || tag == kGroup;
}

std::optional<uint32_t> permissions_of(std::string_view acl, uint16_t tag) {
  for (size_t i = 0; i < count(acl); ++i) {
    if (at(acl, i).tag == tag) return at(acl, i).permissions;
  }
  return std::nullopt;
}

}  // namespace

bool acl_is_good(std::string_view acl) {
  if (acl.size() < kAclHeaderBytes || acl.size() > kAclBytesMax) return false;
  if ((acl.size() - kAclHeaderBytes) % kAclEntryBytes != 0) return false;
  uint32_t version = 0;
  std::memcpy(&version, acl.data(), sizeof version);
  if (version != kAclVersion) return false;
  uint32_t seen = 0;
  Entry last;
  for (size_t i = 0; i < count(acl); ++i) {
    const Entry entry = at(acl, i);
    const bool known =
        entry.tag >= kUserObject && entry.tag <= kOther && (entry.tag & (entry.tag - 1)) == 0;
    if (!known || (entry.permissions & ~7U) != 0 || entry.tag < last.tag) return false;
    const bool again = (seen & entry.tag) != 0;
    if (again && (!is_named(entry.tag) || entry.id <= last.id)) return false;
    if (is_named(entry.tag) ? entry.id == kNoId : entry.id != kNoId) return false;
    seen |= entry.tag;
    last = entry;
  }
  constexpr uint32_t kNeeded = kUserObject | kGroupObject | kOther;
  const bool names = (seen & (kUser | kGroup)) != 0;
  return (seen & kNeeded) == kNeeded && (!names || (seen & kMask) != 0);
}

// The algorithm of acl(5).
uint32_t acl_grants(const Credentials& credentials, const Attributes& attributes, uint32_t wanted) {
  const std::string_view acl = attributes.acl;
  const uint32_t mask = permissions_of(acl, kMask).value_or(7);
  bool in_some_group = false;
  for (size_t i = 0; i < count(acl); ++i) {
    const Entry entry = at(acl, i);
    switch (entry.tag) {
      case kUserObject:
        if (credentials.uid == attributes.uid) return entry.permissions;
        break;
      case kUser:
        if (credentials.uid == entry.id) return entry.permissions & mask;
        break;
      case kGroupObject:
      case kGroup: {
        const uint32_t group = entry.tag == kGroup ? entry.id : attributes.gid;
        if (!in_group(credentials, group)) break;
        in_some_group = true;
        const uint32_t granted = entry.permissions & mask;
        if ((wanted & ~granted) == 0) return granted;
        break;
      }
      case kOther:
        return in_some_group ? 0 : entry.permissions;
      default:
        break;
    }
  }
  return 0;
}

uint32_t mode_of_acl(std::string_view acl) {
  DASSERT(acl_is_good(acl));
  const uint32_t group = permissions_of(acl, kMask).value_or(*permissions_of(acl, kGroupObject));
  return *permissions_of(acl, kUserObject) << 6 | group << 3 | *permissions_of(acl, kOther);
}

bool acl_is_minimal(std::string_view acl) {
  return count(acl) == 3;  // the owner, the group and all others, which a good list always has
}

std::string acl_with_mode(std::string_view acl, uint32_t mode) {
  std::string changed(acl);
  const bool masked = permissions_of(acl, kMask).has_value();
  for (size_t i = 0; i < count(acl); ++i) {
    Entry entry = at(acl, i);
    if (entry.tag == kUserObject) entry.permissions = mode >> 6 & 7;
    if (entry.tag == (masked ? kMask : kGroupObject)) entry.permissions = mode >> 3 & 7;
    if (entry.tag == kOther) entry.permissions = mode & 7;
    put(changed, i, entry);
  }
  DASSERT(acl_is_good(changed));
  return changed;
}

Inherited inherit(std::string_view default_acl, uint32_t mode) {
  const uint32_t granted = mode & mode_of_acl(default_acl);
  ASSERT((granted & ~0777U) == 0);
  std::string acl = acl_with_mode(default_acl, granted);
  if (acl_is_minimal(acl)) acl.clear();
  return {std::move(acl), granted};
}

}  // namespace penstock::meta
