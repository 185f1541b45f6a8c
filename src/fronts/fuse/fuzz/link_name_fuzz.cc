// Any bytes as the name of a link in a mount's virtual directory.
#include "fuzz.h"
#include "link_table.h"

#include <cstdlib>

namespace penstock::fuzz {
namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string id = "5b2d6d1c-2a0f-4f52-9a52-8b2b6c8f0001";
  return {id,
          "5B2D6D1C2A0F4F529A528B2B6C8F0001.b4096",
          id + ".b65536",
          id + ".r64.ph.t1000.f3",
          id + ".w-1.pl",
          id + ".gdr.d7",
          id + ".b18446744073709551615"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string name(reinterpret_cast<const char*>(data), size);
  const auto parsed = fuse::parse_link_name(name);
  if (!parsed) return 0;
  fuzz::check(parsed->uuid.size() == 32);
  fuzz::check(parsed->uuid.find_first_not_of("0123456789abcdef") == std::string::npos);
  fuzz::check(parsed->priority >= -1 && parsed->priority <= 1);
  fuzz::check(name.find('/') == std::string::npos && name.find('\0') == std::string::npos);
  // Nothing leads out of /dev/shm, and nothing that is refused is remembered.
  static fuse::LinkTable table(resources::Accounts::make(resources::bounds_of_process(), 0));
  fuzz::check(!table.add({}, name, "/dev/shm/../etc/passwd", -1));
  fuzz::check(!table.add({}, name, "/dev/shm/" + name, -1));
  fuzz::check(table.list({}).empty());
  return 0;
}
