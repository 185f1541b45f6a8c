// Messages to bytes of Protocol Buffers and back, by the fields that they say they have (fields.h).
// Decoding takes foreign bytes: a message comes out only if each of its fields has the type that it
// should have, occurs once at most, and is within its limit. Fields of other numbers are skipped.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <span>
#include <string>
#include <variant>

#include "penstock/wire.h"

namespace penstock::wire::codec {

using Input = google::protobuf::io::CodedInputStream;
using Format = google::protobuf::internal::WireFormatLite;

template <class T>
concept IsMessage = requires(T& m) {
  T::fields(m);
};

template <class T>
concept HasBody = requires(T& m) {
  m.body;
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsArray = false;
template <size_t kLength>
inline constexpr bool kIsArray<std::array<uint8_t, kLength>> = true;
template <class T>
inline constexpr bool kIsBytes = std::is_same_v<T, std::string> || kIsArray<T>;

// ---- scalars: as the number that a varint holds ----

inline uint64_t to_varint(std::unsigned_integral auto value) {
  return value;
}
inline uint64_t to_varint(int64_t value) {
  return Format::ZigZagEncode64(value);
}
inline uint64_t to_varint(Status status) {
  return static_cast<uint64_t>(status.code()) | static_cast<uint64_t>(status.detail()) << 32;
}

inline bool from_varint(uint64_t in, uint64_t* value) {
  *value = in;
  return true;
}
inline bool from_varint(uint64_t in, uint32_t* value) {
  *value = static_cast<uint32_t>(in);
  return in <= UINT32_MAX;
}
inline bool from_varint(uint64_t in, bool* value) {
  *value = in != 0;
  return in <= 1;
}
inline bool from_varint(uint64_t in, int64_t* value) {
  *value = Format::ZigZagDecode64(in);
  return true;
}
inline bool from_varint(uint64_t in, Status* status) {
  const uint64_t code = in & UINT32_MAX;
  *status = Status(static_cast<Code>(code), static_cast<uint32_t>(in >> 32));
  return code <= UINT16_MAX;
}

// ---- out ----

inline void put_varint(uint64_t value, std::string& out) {
  uint8_t bytes[kVarintBytesMax];
  const uint8_t* const end =
      google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, bytes);
  ASSERT(end > bytes && end <= bytes + sizeof bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}
inline void put_tag(uint32_t number, Format::WireType type, std::string& out) {
  put_varint(Format::MakeTag(static_cast<int>(number), type), out);
}

template <class Message>
void put_message(const Message& message, std::string& out);

inline void put_bytes(uint32_t number, Bytes bytes, std::string& out) {
  put_tag(number, Format::WIRETYPE_LENGTH_DELIMITED, out);
  put_varint(bytes.size(), out);
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Also a value that proto3 would leave out, as in a list.
template <class T>
void put_always(uint32_t number, const T& value, std::string& out) {
  if constexpr (IsMessage<T>) {
    std::string nested;
    put_message(value, nested);
    put_bytes(number, std::as_bytes(std::span(nested)), out);
  } else if constexpr (kIsBytes<T>) {
    put_bytes(number, std::as_bytes(std::span(value)), out);
  } else {
    put_tag(number, Format::WIRETYPE_VARINT, out);
    put_varint(to_varint(value), out);
  }
}

template <class T>
void put_field(uint32_t number, const T& value, std::string& out) {
  if constexpr (kIsOptional<T>) {
    if (value) put_always(number, *value, out);
  } else if constexpr (kIsList<T>) {
    for (const auto& element : value) put_always(number, element, out);
  } else if constexpr (IsMessage<T>) {
    std::string nested;
    put_message(value, nested);
    if (!nested.empty()) put_bytes(number, std::as_bytes(std::span(nested)), out);
  } else if constexpr (kIsBytes<T>) {
    if (!value.empty()) put_always(number, value, out);
  } else {
    if (to_varint(value) != 0) put_always(number, value, out);
  }
}

// A body is one of several messages, each under a number of its own.
template <class Body>
void put_body(const Body& body, std::string& out) {
  std::visit(
      [&](const auto& message) {
        using Message = std::decay_t<decltype(message)>;
        if constexpr (!std::is_same_v<Message, std::monostate>) {
          put_always(Message::kKind.number, message, out);
        }
      },
      body);
}

// Whether no two fields of a message have the same number.
template <uint32_t... kNumbers>
constexpr bool are_distinct() {
  uint64_t seen = 0;
  bool distinct = true;
  ((distinct = distinct && (seen >> kNumbers & 1) == 0, seen |= uint64_t{1} << kNumbers), ...);
  return distinct;
}

template <class Message>
void put_message(const Message& message, std::string& out) {
  std::apply(
      [&](const auto&... f) {
        static_assert(are_distinct<std::decay_t<decltype(f)>::kNumber...>());
        (put_field(f.kNumber, f.value, out), ...);
      },
      Message::fields(message));
  if constexpr (HasBody<Message>) put_body(message.body, out);
}

// ---- in ----

template <class Message>
bool take_message(Input& in, Message* message);

template <class T>
constexpr Format::WireType wire_type_of() {
  return kIsBytes<T> || IsMessage<T> ? Format::WIRETYPE_LENGTH_DELIMITED : Format::WIRETYPE_VARINT;
}

template <class T>
bool take_value(Input& in, T* value) {
  if constexpr (kIsBytes<T> || IsMessage<T>) {
    uint32_t length = 0;
    if (!in.ReadVarint32(&length)) return false;
    const int left = in.BytesUntilLimit();
    if (left < 0 || length > static_cast<uint32_t>(left)) return false;
    const int size = static_cast<int>(length);
    if constexpr (std::is_same_v<T, std::string>) {
      return in.ReadString(value, size);
    } else if constexpr (kIsBytes<T>) {
      return length == value->size() && in.ReadRaw(value->data(), size);
    } else {
      const Input::Limit outside = in.PushLimit(size);
      const bool good = take_message(in, value);
      in.PopLimit(outside);
      return good;
    }
  } else {
    uint64_t number = 0;
    return in.ReadVarint64(&number) && from_varint(number, value);
  }
}

// One occurrence of the field.
template <class F>
bool take_field(Input& in, Format::WireType type, bool is_first, const F& field) {
  using T = std::remove_reference_t<decltype(field.value)>;
  if constexpr (kIsList<T>) {
    using Element = typename T::value_type;
    if (type != wire_type_of<Element>()) return false;
    // No memory for more than the limit lets through.
    if constexpr (std::is_same_v<decltype(field.limit), Sized>) {
      if (field.value.size() >= field.limit.most) return false;
    }
    return take_value(in, &field.value.emplace_back());
  } else if constexpr (kIsOptional<T>) {
    return is_first && type == wire_type_of<typename T::value_type>() &&
           take_value(in, &field.value.emplace());
  } else {
    return is_first && type == wire_type_of<T>() && take_value(in, &field.value);
  }
}

template <class Message>
bool is_valid(const Message& message);

// A message within another is held to its own limits also where it was not there at all, and all of
// it is 0 or empty.
template <class F>
bool is_within(const F& field) {
  using Value = std::remove_cvref_t<decltype(field.value)>;
  if constexpr (kIsOptional<Value>) {
    return !field.value || field.limit(*field.value);
  } else if constexpr (requires { Value::fields(field.value); }) {
    return field.limit(field.value) && is_valid(field.value);
  } else {
    return field.limit(field.value);
  }
}

// Ids of a fixed length have no empty value, so they must be there.
template <class... F>
bool has_what_it_needs(const std::tuple<F...>&, [[maybe_unused]] uint64_t seen) {
  return ((!kIsArray<std::remove_const_t<typename F::Value>> || (seen >> F::kNumber & 1) != 0) &&
          ...);
}

// Whether each field is within its limit, and all together are what they should be.
template <class Message>
bool is_valid(const Message& message) {
  const bool within =
      std::apply([](const auto&... f) { return (is_within(f) && ...); }, Message::fields(message));
  if constexpr (requires { message.fits(); }) return within && message.fits();
  return within;
}

template <class Message, class Body>
bool offer_body(Input& in, uint32_t number, Body* body, bool* is_known) {
  if constexpr (!std::is_same_v<Message, std::monostate>) {
    if (Message::kKind.number == number) {
      *is_known = true;
      return std::holds_alternative<std::monostate>(*body) &&
             take_value(in, &body->template emplace<Message>());
    }
  }
  return false;
}

// The body under this number, if there is such a body. False: it is no good, or the second one.
template <class... Messages>
bool take_body(Input& in, uint32_t number, std::variant<Messages...>* body, bool* is_known) {
  const bool good = (offer_body<Messages>(in, number, body, is_known) || ...);
  return good || !*is_known;
}

// Up to the limit of `in`.
template <class Message>
bool take_message(Input& in, Message* message) {
  const auto fields = Message::fields(*message);
  // What is not there is 0 or empty, whatever the struct has as its default.
  std::apply([](const auto&... f) { ((f.value = {}), ...); }, fields);
  uint64_t seen = 0;
  while (in.BytesUntilLimit() > 0) {
    const uint32_t tag = in.ReadTag();
    const auto number = static_cast<uint32_t>(Format::GetTagFieldNumber(tag));
    if (number == 0) return false;
    const uint64_t bit = number < 64 ? uint64_t{1} << number : 0;
    bool is_known = false;
    bool good = true;
    const auto offer = [&](const auto& f) {
      if (f.kNumber != number) return;
      is_known = true;
      good = take_field(in, Format::GetTagWireType(tag), (seen & bit) == 0, f);
    };
    std::apply([&](const auto&... f) { (offer(f), ...); }, fields);
    if constexpr (HasBody<Message>) {
      if (!is_known && Format::GetTagWireType(tag) == Format::WIRETYPE_LENGTH_DELIMITED) {
        good = take_body(in, number, &message->body, &is_known);
      }
    }
    if (!is_known) good = Format::SkipField(&in, tag);
    if (!good) return false;
    seen |= bit;
  }
  return has_what_it_needs(fields, seen) && is_valid(*message);
}

// How many descriptors belong to a body.
template <class Body>
size_t descriptors_of(const Body& body) {
  return std::visit(
      [](const auto& message) -> size_t {
        using Message = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<Message, std::monostate>) {
          return 0;
        } else if constexpr (requires { message.descriptors(); }) {
          return message.descriptors();
        } else {
          return Message::kKind.descriptors;
        }
      },
      body);
}

// Whether no two messages of a body have the same number, and none one below `first`.
template <class... Messages>
constexpr bool has_distinct_numbers(const std::variant<std::monostate, Messages...>*,
                                    uint32_t first) {
  const std::array numbers = {Messages::kKind.number...};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < first) return false;
    for (size_t j = 0; j < i; ++j) {
      if (numbers[i] == numbers[j]) return false;
    }
  }
  return true;
}

}  // namespace penstock::wire::codec
