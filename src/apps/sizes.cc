#include "sizes.h"

#include <algorithm>
#include <string>

#include "penstock/base.h"
#include "penstock/client.h"

namespace penstock::apps {
namespace {

// Of digits that always fit 64 bits.
constexpr size_t kDigitsMax = 19;

// Replaces `text` by the bytes that it means; false if it is no size.
bool convert(std::string* text) {
  // CLI11 would take a leading zero for octal, 0x for hexadecimal, and what is negative or does not
  // fit for other numbers.
  const auto digits_of = [](const std::string& s) {
    return std::min(s.find_first_not_of("0123456789"), s.size());
  };
  const size_t digits = digits_of(*text);
  if (digits == 0 || text->find_first_of("xX") != std::string::npos) return false;
  text->erase(0, std::min(text->find_first_not_of('0'), digits - 1));
  if (digits_of(*text) > kDigitsMax) return false;
  static const CLI::AsSizeValue kSize(false);
  try {
    return kSize(*text).empty();
  } catch (const CLI::ValidationError&) {
    return false;
  }
}

}  // namespace

CLI::Validator byte_size() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string given = text;
        if (convert(&text)) return std::string();
        return "not a size: " + given + " (write 64MiB, 10G, ...)";
      },
      "SIZE");
}

CLI::Validator chunk_size() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string given = text;
        const uint64_t bytes = convert(&text) ? std::stoull(text) : 0;
        const bool good = is_power_of_two(bytes) && bytes >= limits::kChunkBytesMin &&
                          bytes <= limits::kChunkBytesMax;
        return good ? std::string() : "not a power of two from 64KiB to 64MiB: " + given;
      },
      "SIZE");
}

}  // namespace penstock::apps
