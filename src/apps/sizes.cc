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

struct Unit {
  char letter;
  uint64_t seconds;
};
constexpr Unit kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86'400}, {'w', 604'800}};
constexpr uint64_t kYear = 366 * uint64_t{86'400};

// Seconds; 0 if the text is no time.
uint64_t seconds_of(const std::string& text) {
  uint64_t number = 0;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (!parse_number(text.substr(0, digits), &number) || digits + 1 < text.size()) return 0;
  uint64_t unit = digits == text.size() ? 1 : 0;
  for (const Unit& one : kUnits) {
    if (digits < text.size() && text[digits] == one.letter) unit = one.seconds;
  }
  return unit == 0 || number > kYear / unit ? 0 : number * unit;
}

}  // namespace

CLI::Validator duration() {
  return CLI::Validator(
      [](std::string& text) {
        const uint64_t seconds = seconds_of(text);
        if (seconds == 0)
          return "not a time of up to a year: " + text + " (write 90s, 30m, 12h, 7d)";
        text = std::to_string(seconds);
        return std::string();
      },
      "TIME");
}

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
