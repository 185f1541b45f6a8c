#include "penstock/symm/size_text.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

namespace penstock::symm {
namespace {

// One letter, as OpenSHMEM has them: it wants any other suffix refused.
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

}  // namespace penstock::symm
