// What a fuzz input says to do to an agent, and how to say it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/ring.h"
#include "penstock/wire.h"

namespace penstock::fuzz {

enum class Act : uint8_t { message, push, scribble, resize, wake, replies };
inline constexpr uint8_t kActs = 6;

// Reads an input front to back; beyond its end everything is 0.
class Script {
 public:
  explicit Script(std::string_view rest) : rest_(rest) {}
  bool is_over() const { return rest_.empty(); }

  template <class T>
  T take() {
    T value{};
    const size_t length = std::min(sizeof value, rest_.size());
    std::memcpy(&value, rest_.data(), length);
    rest_.remove_prefix(length);
    return value;
  }
  std::string_view take_bytes(size_t length) {
    const std::string_view bytes = rest_.substr(0, length);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view rest_;
};

class ScriptWriter {
 public:
  // `first` chooses the first descriptor that goes along, the next ones follow it.
  ScriptWriter& message(wire::RequestBody body, uint8_t first = 0) {
    const std::string bytes = *wire::encode(wire::Request{++last_id_, std::move(body)});
    put(Act::message);
    put(first);
    put(static_cast<uint16_t>(bytes.size()));
    text_ += bytes;
    return *this;
  }
  ScriptWriter& push(uint8_t lane, const ring::Submission& entry) {
    put(Act::push);
    put(lane);
    put(entry);
    return *this;
  }
  ScriptWriter& scribble(uint8_t memory, uint32_t word, uint32_t value) {
    put(Act::scribble);
    put(memory);
    put(word);
    put(value);
    return *this;
  }
  ScriptWriter& resize(uint8_t memory, uint32_t bytes) {
    put(Act::resize);
    put(memory);
    put(bytes);
    return *this;
  }
  ScriptWriter& act(Act act) {
    put(act);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  template <class T>
  void put(const T& value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string text_;
  uint64_t last_id_ = 0;
};

}  // namespace penstock::fuzz
