// How a message says its fields, once: each message has a function `fields(message)` that names
// them with their numbers and limits. Encoding, decoding, validation and the most bytes that a
// message takes all follow from it (message_codec.h).
//
//   struct Remove {
//     std::string path;
//     bool directory = false;
//     static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.path),
//     field<2>(m.directory)); }
//   };
//
// The bytes are those of Protocol Buffers (proto3). The type of a field says how it is written:
// unsigned integers, bool and Status as varints, signed ones zigzag, text and arrays of bytes as
// bytes, messages as messages; a vector as one field for each element; an optional only where it
// has a value. A rule that concerns several fields is a function `bool fits() const` of the
// message.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "penstock/base.h"

namespace penstock::wire {

// ---- limits of one field ----

struct Unlimited {
  constexpr bool operator()(const auto&) const { return true; }
};

struct Between {
  uint64_t least = 0;
  uint64_t most = 0;
  constexpr bool operator()(std::unsigned_integral auto value) const {
    return least <= value && value <= most;
  }
};
constexpr Between between(uint64_t least, uint64_t most) {
  return {least, most};
}
constexpr Between at_most(uint64_t most) {
  return {0, most};
}
constexpr Between below(uint64_t bound) {
  return {0, bound - 1};
}

struct OnlyBits {
  uint32_t bits = 0;
  constexpr bool operator()(uint32_t value) const { return (value & ~bits) == 0; }
};
constexpr OnlyBits only_bits(uint32_t bits) {
  return {bits};
}

// Of text its bytes, of a list its elements.
struct Sized {
  size_t least = 0;
  size_t most = 0;
  constexpr bool operator()(const auto& value) const {
    return least <= value.size() && value.size() <= most;
  }
};
constexpr Sized sized(size_t least, size_t most) {
  return {least, most};
}

// ---- fields ----

template <uint32_t kFieldNumber, class T, class L>
struct Field {
  using Value = T;
  static constexpr uint32_t kNumber = kFieldNumber;
  static_assert(kNumber >= 1 && kNumber < 64, "a set of fields is one word");

  T& value;
  L limit;
};

template <uint32_t kNumber, class T, class L = Unlimited>
constexpr Field<kNumber, T, L> field(T& value, L limit = {}) {
  return {value, limit};
}

// A message of its own, as a request or a reply: the number under which it stands there, and how
// many descriptors come with it. One whose number of descriptors depends on its content has a
// function `size_t descriptors() const`.
struct Kind {
  uint32_t number = 0;
  size_t descriptors = 0;
};

// ---- how many bytes a message takes at most, without what its texts and lists contain ----

inline constexpr size_t kVarintBytesMax = 10;
// Nothing is longer than a datagram of 64 KiB.
inline constexpr size_t kLengthBytesMax = 3;

template <class Message>
constexpr size_t bytes_around();

template <class T>
constexpr size_t value_bytes_around(const T*) {
  if constexpr (std::is_same_v<T, bool>) {
    return 1;
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    return 5;
  } else if constexpr (std::integral<T> || std::is_same_v<T, Status>) {
    return kVarintBytesMax;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return kLengthBytesMax;
  } else {
    return kLengthBytesMax + bytes_around<T>();
  }
}
template <size_t kLength>
constexpr size_t value_bytes_around(const std::array<uint8_t, kLength>*) {
  return 1 + kLength;
}
template <class T>
constexpr size_t value_bytes_around(const std::optional<T>*) {
  return value_bytes_around(static_cast<const T*>(nullptr));
}
template <class T>
constexpr size_t value_bytes_around(const std::vector<T>*) {
  return 0;
}

template <class F>
constexpr size_t field_bytes_around() {
  using Value = std::remove_const_t<typename F::Value>;
  const size_t value = value_bytes_around(static_cast<const Value*>(nullptr));
  const size_t tag = F::kNumber < 16 ? 1 : 2;
  return value == 0 ? 0 : tag + value;
}

template <class Message>
constexpr size_t bytes_around() {
  using Fields = decltype(Message::fields(std::declval<Message&>()));
  return []<class... F>(std::type_identity<std::tuple<F...>>) {
    return (size_t{0} + ... + field_bytes_around<F>());
  }(std::type_identity<Fields>{});
}

// As an element of a list, whose number is below 16.
template <class Message>
constexpr size_t element_bytes_around() {
  return 1 + kLengthBytesMax + bytes_around<Message>();
}

}  // namespace penstock::wire
