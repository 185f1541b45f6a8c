// Values as bytes: unsigned LEB128 varints, fixed little-endian words and length-prefixed strings.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "penstock/base.h"

namespace penstock::meta {

class Writer {
 public:
  // `usual`: about as many bytes as it will take.
  explicit Writer(size_t usual = 0) { out_.reserve(usual); }

  void byte(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void varint(uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<uint8_t>(value) | 0x80);
      value >>= 7;
    }
    byte(static_cast<uint8_t>(value));
  }
  void fixed64(uint64_t value) {
    char bytes[sizeof value];
    for (char& byte : bytes) {
      byte = static_cast<char>(value);
      value >>= 8;
    }
    out_.append(bytes, sizeof bytes);
  }
  void string(std::string_view value) {
    varint(value.size());
    out_.append(value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what a Writer wrote. Any input is safe: once something does not fit, everything reads as
// zero and finished() is false.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  uint8_t byte() {
    if (in_.empty()) return fail();
    const auto value = static_cast<uint8_t>(in_.front());
    in_.remove_prefix(1);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t next = byte();
      const uint64_t bits = next & 0x7f;
      // One value has one encoding: no bits beyond 64, no needless zero at the end.
      if ((bits << shift) >> shift != bits || (next == 0 && shift > 0)) return fail();
      value |= bits << shift;
      if ((next & 0x80) == 0) return failed_ ? 0 : value;
    }
    return fail();
  }
  uint32_t varint32() {
    const uint64_t value = varint();
    return value > UINT32_MAX ? fail() : static_cast<uint32_t>(value);
  }
  uint64_t fixed64() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 8) value |= static_cast<uint64_t>(byte()) << shift;
    return value;
  }
  std::string string(size_t max) {
    const uint64_t length = varint();
    if (length > max || length > in_.size()) {
      fail();
      return {};
    }
    std::string value(in_.substr(0, length));
    in_.remove_prefix(length);
    return value;
  }
  // Marks the input as bad unless `condition` holds.
  void require(bool condition) {
    if (!condition) fail();
  }
  // Nothing was wrong so far.
  bool going() const { return !failed_; }
  // Everything was read and made sense.
  bool finished() const {
    DASSERT(!failed_ || in_.empty());
    return !failed_ && in_.empty();
  }

 private:
  uint8_t fail() {
    failed_ = true;
    in_ = {};
    return 0;
  }

  std::string_view in_;
  bool failed_ = false;
};

}  // namespace penstock::meta
