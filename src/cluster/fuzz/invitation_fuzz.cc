// Any text as an invitation: what is taken is written as the same text again.
#include "fuzz.h"

#include <cstdlib>

#include "penstock/cluster/invitation.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  const std::string id = "00112233445566778899aabbccddeeff";
  return {id + "@127.0.0.1:9180", id + "@[::1]:9180", id + "." + id + "." + id + "@10.0.0.1:1"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto invitation = cluster::parse_invitation(text);
  if (!invitation) return 0;
  // An address has several ways of being written; a token has one.
  const std::string again = cluster::text_of(*invitation);
  const size_t at = text.find('@');
  const bool is_same = again.substr(0, again.find('@')) == text.substr(0, at);
  const auto twice = cluster::parse_invitation(again);
  if (!is_same || !twice || cluster::text_of(*twice) != again) std::abort();
  return 0;
}
