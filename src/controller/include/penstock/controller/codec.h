// Records, and messages that hold the same things, as bytes: little-endian words, strings with
// their length before them, a version in front and a checksum behind.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/controller/records.h"

namespace penstock::controller {

inline uint32_t checksum_of(std::string_view bytes) {
  return crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

class Writer {
 public:
  explicit Writer(uint8_t version) { word(version); }

  template <class Word>
  void word(Word value) {
    for (size_t i = 0; i < sizeof(Word); ++i) {
      out_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  void uuid(const Uuid& uuid) {
    for (const uint8_t byte : uuid.bytes) word(byte);
  }
  template <size_t kBytes>
  void array(const std::array<uint8_t, kBytes>& bytes) {
    for (const uint8_t byte : bytes) word(byte);
  }
  // At most 255 bytes.
  void string(std::string_view value) {
    ASSERT(value.size() <= UINT8_MAX);
    word(static_cast<uint8_t>(value.size()));
    out_.append(value);
  }
  // At most 65,535 bytes.
  void bytes(std::string_view value) {
    ASSERT(value.size() <= UINT16_MAX);
    word(static_cast<uint16_t>(value.size()));
    out_.append(value);
  }
  std::string take() {
    word(checksum_of(out_));
    return std::move(out_);
  }

 private:
  std::string out_;
};

// Reads what a Writer wrote. Any input is safe: once something does not fit, everything reads as
// zero, and end() says so.
class Reader {
 public:
  Reader(std::string_view in, uint8_t version) {
    constexpr size_t kChecksumBytes = sizeof(uint32_t);
    if (in.size() <= kChecksumBytes) {
      failed_ = true;
      return;
    }
    const std::string_view body = in.substr(0, in.size() - kChecksumBytes);
    in_ = in.substr(body.size());
    const bool is_whole = word<uint32_t>() == checksum_of(body);
    in_ = body;
    found_version_ = word<uint8_t>();
    is_later_ = is_whole && found_version_ > version;
    require(is_whole && found_version_ == version);
  }

  template <class Word>
  Word word() {
    if (in_.size() < sizeof(Word)) {
      fail();
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Word); ++i) {
      value |= uint64_t{static_cast<uint8_t>(in_[i])} << (8 * i);
    }
    in_.remove_prefix(sizeof(Word));
    return static_cast<Word>(value);
  }
  // A number below `count`.
  uint8_t choice(uint8_t count) {
    const auto value = word<uint8_t>();
    require(value < count);
    return failed_ ? 0 : value;
  }
  Uuid uuid() {
    Uuid uuid;
    for (uint8_t& byte : uuid.bytes) byte = word<uint8_t>();
    return uuid;
  }
  template <size_t kBytes>
  void array(std::array<uint8_t, kBytes>& bytes) {
    for (uint8_t& byte : bytes) byte = word<uint8_t>();
  }
  std::string string() { return text(word<uint8_t>()); }
  std::string bytes() { return text(word<uint16_t>()); }
  void require(bool holds) {
    if (!holds) fail();
  }
  // Nothing was wrong so far.
  bool going() const { return !failed_; }
  // Bytes are left that nobody has read.
  bool has_more() const { return !failed_ && !in_.empty(); }
  // ok if everything was read and made sense.
  Status end() const {
    if (is_later_) return {Code::wrong_version, found_version_};
    return failed_ || !in_.empty() ? Code::corrupt : Code::ok;
  }

 private:
  std::string text(size_t length) {
    if (length > in_.size()) {
      fail();
      return {};
    }
    std::string value(in_.substr(0, length));
    in_.remove_prefix(length);
    return value;
  }
  void fail() {
    failed_ = true;
    in_ = {};
  }

  std::string_view in_;
  uint8_t found_version_ = 0;
  bool is_later_ = false;
  bool failed_ = false;
};

// What a node tells of itself. Reading fails where is_storable() does.
void write(Writer& writer, const NodeFacts& facts);
NodeFacts read_facts(Reader& reader);
// What a node is limited to. Reading fails where rights::is_good() does.
void write(Writer& writer, const rights::Restriction& restriction);
rights::Restriction read_restriction(Reader& reader);

}  // namespace penstock::controller
