#include "words.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace penstock::meta_text {
namespace {

using meta::FileTime;
using meta::FileType;

// In the order of FileType.
constexpr std::array<std::string_view, 7> kTypeNames = {"regular", "directory", "symlink", "fifo",
                                                        "socket",  "character", "block"};
static_assert(kTypeNames[static_cast<size_t>(FileType::block)] == "block");

constexpr size_t kNanosecondDigits = 9;
constexpr size_t kChecksumDigits = 8;
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_plain(char byte) {
  return byte > ' ' && byte <= '~' && byte != '\\';
}

// A number of so many digits, with zeros before it.
void append_padded(std::string& out, uint64_t number, size_t digits) {
  const size_t begin = out.size();
  out.append(digits, '0');
  for (size_t at = out.size(); number != 0; number /= 10) {
    ASSERT(at > begin);
    out[--at] = static_cast<char>('0' + number % 10);
  }
}

// The value of a small hexadecimal digit; 16 for anything else.
unsigned hex_value(char digit) {
  return static_cast<unsigned>(std::min(kHexDigits.find(digit), size_t{16}));
}

}  // namespace

WordWriter& WordWriter::number(uint64_t number, int base) {
  char digits[64];
  const auto written = std::to_chars(digits, digits + sizeof digits, number, base);
  ASSERT(written.ec == std::errc());
  out_.append(digits, written.ptr);
  return *this;
}

WordWriter& WordWriter::checksum(uint32_t checksum) {
  for (int shift = 28; shift >= 0; shift -= 4) out_.push_back(kHexDigits[checksum >> shift & 15]);
  return *this;
}

WordWriter& WordWriter::time(FileTime time) {
  if (time.seconds() < 0) text("-");
  const int64_t seconds = time.seconds();
  number(static_cast<uint64_t>(seconds < 0 ? -seconds : seconds)).text(".");
  append_padded(out_, static_cast<uint64_t>(time.nanoseconds()), kNanosecondDigits);
  return *this;
}

WordWriter& WordWriter::bytes(std::string_view bytes) {
  for (const char byte : bytes) {
    if (is_plain(byte)) {
      out_.push_back(byte);
      continue;
    }
    const auto value = static_cast<uint8_t>(byte);
    const char escaped[] = {'\\', 'x', kHexDigits[value >> 4], kHexDigits[value & 15]};
    out_.append(escaped, sizeof escaped);
  }
  return *this;
}

WordWriter& WordWriter::type(FileType type) {
  ASSERT(static_cast<size_t>(type) < kTypeNames.size());
  return text(kTypeNames[static_cast<size_t>(type)]);
}

uint64_t WordReader::number(uint64_t max, int base) {
  uint64_t value = 0;
  const char* const begin = rest_.data();
  const auto [end, error] = std::from_chars(begin, begin + rest_.size(), value, base);
  const auto length = static_cast<size_t>(end - begin);
  // Without zeros before it.
  if (error != std::errc() || value > max || (rest_.front() == '0' && length > 1)) {
    fail();
    return 0;
  }
  rest_.remove_prefix(length);
  return value;
}

uint32_t WordReader::checksum() {
  uint32_t value = 0;
  if (rest_.size() < kChecksumDigits) fail();
  for (size_t i = 0; i < kChecksumDigits && !failed_; ++i) {
    const unsigned digit = hex_value(rest_[i]);
    require(digit < 16);
    value = value << 4 | digit;
  }
  if (failed_) return 0;
  rest_.remove_prefix(kChecksumDigits);
  return value;
}

FileTime WordReader::time() {
  const bool negative = next_is("-");
  if (negative) text("-");
  const uint64_t absolute = number(static_cast<uint64_t>(FileTime::kSecondsMax));
  const int64_t seconds =
      negative ? -static_cast<int64_t>(absolute) : static_cast<int64_t>(absolute);
  require(seconds >= FileTime::kSecondsMin && !(negative && absolute == 0));
  text(".");
  const std::string_view digits = rest_.substr(0, kNanosecondDigits);
  require(digits.size() == kNanosecondDigits);
  int64_t nanoseconds = 0;
  for (const char digit : digits) {
    require(digit >= '0' && digit <= '9');
    nanoseconds = nanoseconds * 10 + (digit - '0');
  }
  if (failed_) return {};
  // Not by FileTime's own constructor, which rounds in the first second that there is.
  const uint64_t raw =
      static_cast<uint64_t>(seconds - FileTime::kSecondsMin) * uint64_t{FileTime::kNanoseconds} +
      static_cast<uint64_t>(nanoseconds);
  require(raw <= FileTime::kRawMax);
  if (failed_) return {};
  rest_.remove_prefix(kNanosecondDigits);
  return FileTime::from_raw(raw);
}

std::string WordReader::bytes(size_t max) {
  std::string out;
  const std::string_view from = word();
  for (size_t at = 0; at < from.size() && !failed_; ++at) {
    char byte = from[at];
    if (byte == '\\') {
      const bool whole = from.size() - at >= 4 && from[at + 1] == 'x';
      const unsigned high = whole ? hex_value(from[at + 2]) : 16;
      const unsigned low = whole ? hex_value(from[at + 3]) : 16;
      require(high < 16 && low < 16);
      byte = static_cast<char>((high & 15) << 4 | (low & 15));
      // What is shown as it is has no other form.
      require(!is_plain(byte));
      at += 3;
    } else {
      require(is_plain(byte));
    }
    out.push_back(byte);
    require(out.size() <= max);
  }
  if (failed_) return {};
  rest_.remove_prefix(from.size());
  return out;
}

FileType WordReader::type() {
  const auto found = std::find(kTypeNames.begin(), kTypeNames.end(), word());
  if (found == kTypeNames.end()) {
    fail();
    return FileType::regular;
  }
  rest_.remove_prefix(found->size());
  return static_cast<FileType>(found - kTypeNames.begin());
}

}  // namespace penstock::meta_text
