// Numbers and texts as bytes of a frame, little endian.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "penstock/base.h"

namespace penstock::job {

static_assert(std::endian::native == std::endian::little);

class ByteWriter {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_integral_v<T>);
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), at, at + sizeof value);
  }
  // Cut where its length would not fit.
  void text(std::string_view text) {
    const auto length = static_cast<uint16_t>(text.size() < UINT16_MAX ? text.size() : UINT16_MAX);
    number(length);
    raw(std::as_bytes(std::span(text.data(), length)));
  }
  void raw(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what a peer wrote: beyond the end everything is 0 or empty, and good() says so.
class ByteReader {
 public:
  explicit ByteReader(Bytes bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    static_assert(std::is_integral_v<T>);
    T value = 0;
    const Bytes from = raw(sizeof value);
    if (from.size() == sizeof value) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::string text() {
    const Bytes from = raw(number<uint16_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  Bytes raw(size_t length) {
    if (length > bytes_.size()) {
      good_ = false;
      bytes_ = {};
    }
    const Bytes taken = bytes_.first(good_ ? length : 0);
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  size_t left() const { return bytes_.size(); }
  bool good() const { return good_; }
  // Everything was there and nothing is left.
  bool complete() const { return good_ && bytes_.empty(); }

 private:
  Bytes bytes_;
  bool good_ = true;
};

}  // namespace penstock::job
