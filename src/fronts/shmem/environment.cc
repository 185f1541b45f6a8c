#include "environment.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/core.h>

namespace penstock::shmem {
namespace {

// The newer name counts where both are set.
const char* variable(const char* name) {
  const char* const value = std::getenv(("SHMEM_" + std::string(name)).c_str());
  return value != nullptr ? value : std::getenv(("SMA_" + std::string(name)).c_str());
}

std::optional<uint32_t> shift_of(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix.size() != 1) return std::nullopt;
  switch (suffix[0] | 0x20) {
    case 'k':
      return 10;
    case 'm':
      return 20;
    case 'g':
      return 30;
    case 't':
      return 40;
    default:
      return std::nullopt;
  }
}

}  // namespace

Outcome<uint64_t> parse_size(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return Failure{
        Code::invalid_argument,
        fmt::format("'{}' is no size: {} (a number, and k, m, g or t after it, as in 512m)", text,
                    why)};
  };
  const std::string terminated(text);
  // strtod() would take blanks, signs, "inf", "nan" and hexadecimal digits, too.
  const size_t digits = terminated.find_first_not_of("0123456789.eE+-");
  const std::string number = terminated.substr(0, digits);
  if (number.empty() || (number[0] != '.' && (number[0] < '0' || number[0] > '9')))
    return refuse("it has no number");
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (*end != 0) return refuse("its number is not right");
  const std::optional<uint32_t> shift = shift_of(text.substr(number.size()));
  if (!shift) return refuse("what stands after the number is no unit");
  const double bytes = std::ceil(std::ldexp(value, static_cast<int>(*shift)));
  if (!(bytes >= 1)) return refuse("it must be more than 0");
  if (bytes >= 0x1p63) return refuse("it is too large");
  return static_cast<uint64_t>(bytes);
}

Outcome<Environment> read_environment() {
  Environment found;
  found.wants_version = variable("VERSION") != nullptr;
  found.wants_info = variable("INFO") != nullptr;
  found.is_debugging = variable("DEBUG") != nullptr;
  if (const char* const size = variable("SYMMETRIC_SIZE")) {
    auto bytes = parse_size(size);
    if (!bytes)
      return Failure{bytes.error().status, "SHMEM_SYMMETRIC_SIZE: " + bytes.error().message};
    found.heap_bytes = *bytes;
  }
  return found;
}

std::string info_text() {
  return R"(Environment variables of OpenSHMEM programs:
  SHMEM_SYMMETRIC_SIZE  size of each PE's symmetric heap: a number, and k, m, g or t after it (512m, 1.5g).
                        Memory is taken as it is touched. Default: the machine's memory, divided by its PEs.
  SHMEM_VERSION         set to anything: PE 0 prints the library's version at the start
  SHMEM_INFO            set to anything: PE 0 prints this text at the start
  SHMEM_DEBUG           set to anything: each PE tells on standard error what it does at start and end
  PENSTOCK_CHECK        1: PEs compare what they are about to do together; one that does something else, or
                        nothing for PENSTOCK_CHECK_SECONDS (60), ends the job with both places in the program
SMA_... of SHMEM_... works, too, where that is not set.
)";
}

}  // namespace penstock::shmem
