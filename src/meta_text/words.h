// The words of a line: numbers, times and bytes, each with one form only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/meta.h"

namespace penstock::meta_text {

// Adds words to a line. The caller writes names of fields with the space before them.
class WordWriter {
 public:
  explicit WordWriter(std::string& out) : out_(out) {}

  WordWriter& text(std::string_view text) {
    out_.append(text);
    return *this;
  }
  WordWriter& number(uint64_t number, int base = 10);
  WordWriter& flag(bool value) { return text(value ? "1" : "0"); }
  WordWriter& checksum(uint32_t checksum);  // 8 hexadecimal digits
  WordWriter& time(meta::FileTime time);    // seconds since 1970 and nanoseconds: -1.000000000
  // Printable ASCII as it is, but for the backslash and the space; all else as \xHH.
  WordWriter& bytes(std::string_view bytes);
  WordWriter& type(meta::FileType type);

 private:
  std::string& out_;
};

// Reads what a WordWriter wrote. Any input is safe: once something does not fit, everything reads
// as zero or empty and finished() is false.
class WordReader {
 public:
  explicit WordReader(std::string_view line) : rest_(line) {}

  // What is there is exactly this.
  void text(std::string_view text) {
    if (!next_is(text)) return fail();
    rest_.remove_prefix(text.size());
  }
  // Whether what follows begins so.
  bool next_is(std::string_view text) const { return rest_.starts_with(text); }
  uint64_t number(uint64_t max, int base = 10);
  uint32_t number32(int base = 10) { return static_cast<uint32_t>(number(UINT32_MAX, base)); }
  bool flag() { return number(1) == 1; }
  uint32_t checksum();
  meta::FileTime time();
  std::string bytes(size_t max);
  meta::FileType type();
  void require(bool condition) {
    if (!condition) fail();
  }
  bool failed() const { return failed_; }
  // Everything was read and made sense.
  bool finished() const { return !failed_ && rest_.empty(); }

 private:
  void fail() {
    failed_ = true;
    rest_ = {};
  }
  // Up to the next space, or the end.
  std::string_view word() const { return rest_.substr(0, rest_.find(' ')); }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace penstock::meta_text
