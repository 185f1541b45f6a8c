// Any bytes as an access control list, as setxattr() brings them: what is taken as good stays good
// through everything that is made of it.
#include "acl.h"
#include "fuzz.h"

#include <cstdlib>
#include <cstring>

namespace penstock::fuzz {
namespace {

using namespace meta;

void check(bool holds) {
  if (!holds) std::abort();
}

std::string entry(uint16_t tag, uint16_t permissions, uint32_t id) {
  return bytes_of(tag) + bytes_of(permissions) + bytes_of(id);
}

void check_list(std::string_view acl, uint32_t number) {
  if (!acl_is_good(acl)) return;
  const uint32_t mode = number & 0777;
  const std::string changed = acl_with_mode(acl, mode);
  check(acl_is_good(changed) && mode_of_acl(changed) == mode);
  check(mode_of_acl(acl) <= 0777);
  (void)acl_is_minimal(acl);
  const Inherited inherited = inherit(acl, mode);
  check(inherited.mode <= 0777 && (inherited.mode & ~mode) == 0);
  check(inherited.acl.empty() || acl_is_good(inherited.acl));
  Attributes attributes;
  attributes.uid = number % 7;
  attributes.gid = number % 5;
  attributes.mode = mode_of_acl(acl);
  attributes.acl = acl;
  for (uint32_t wanted = 0; wanted < 8; ++wanted) {
    const Credentials who{number % 11, number % 13, {number % 3, 5}};
    check(acl_grants(who, attributes, wanted) <= 7);
  }
}

}  // namespace

std::vector<std::string> seeds() {
  constexpr uint32_t kNoId = UINT32_MAX;
  const std::string version = bytes_of(uint32_t{2}), number = bytes_of(uint32_t{0640});
  const std::string owner = entry(1, 6, kNoId), group = entry(4, 4, kNoId);
  const std::string other = entry(0x20, 0, kNoId);
  return {number + version + owner + group + other, number + version + owner + entry(2, 7, 3) +
                                                        entry(2, 4, 5) + group + entry(8, 6, 2) +
                                                        entry(0x10, 6, kNoId) + other};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t number = 0;
  if (size < sizeof number) return 0;
  std::memcpy(&number, data, sizeof number);
  penstock::fuzz::check_list(
      {reinterpret_cast<const char*>(data) + sizeof number, size - sizeof number}, number);
  return 0;
}
