// The fields of a message, named in their order by one function for both directions: for an Out,
// which writes them, or an In, which reads foreign bytes.
#pragma once

#include "limits.h"

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "penstock/meta_records.h"

namespace penstock::meta_net {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsResult = false;
template <class T>
inline constexpr bool kIsResult<Result<T>> = true;
template <class T>
inline constexpr bool kIsId = false;
template <class Tag, class Word>
inline constexpr bool kIsId<Id<Tag, Word>> = true;

// How many values an enumeration has.
template <class T>
inline constexpr uint8_t kChoices = 0;
template <>
inline constexpr uint8_t kChoices<meta::FileType> = 7;
template <>
inline constexpr uint8_t kChoices<meta::XattrMode> = 3;

class Out {
 public:
  explicit Out(meta::Writer& writer) : writer_(writer) {}

  template <class... T>
  void operator()(const T&... values) {
    (one(values), ...);
  }
  template <class T>
  void list(const std::vector<T>& list, size_t max) {
    ASSERT(list.size() <= max);
    writer_.varint(list.size());
    for (const T& each : list) one(each);
  }
  // An enumeration of which a later release may have more.
  template <class Choice>
  void plain(Choice value) {
    writer_.byte(static_cast<uint8_t>(value));
  }

 private:
  template <class T>
  void one(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      writer_.byte(value ? 1 : 0);
    } else if constexpr (std::is_same_v<T, uint8_t>) {
      writer_.byte(value);
    } else if constexpr (std::is_unsigned_v<T>) {
      writer_.varint(value);
    } else if constexpr (kIsId<T>) {
      writer_.varint(value.value);
    } else if constexpr (std::is_enum_v<T>) {
      ASSERT(static_cast<uint8_t>(value) < kChoices<T>);
      writer_.byte(static_cast<uint8_t>(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      writer_.string(value);
    } else if constexpr (std::is_same_v<T, meta::FileTime>) {
      ASSERT(value.raw() <= meta::FileTime::kRawMax);
      writer_.fixed64(value.raw());
    } else if constexpr (std::is_same_v<T, Status>) {
      writer_.varint(static_cast<uint16_t>(value.code()));
      writer_.varint(value.detail());
    } else if constexpr (kIsOptional<T>) {
      writer_.byte(value ? 1 : 0);
      if (value) one(*value);
    } else if constexpr (kIsResult<T>) {
      one(value ? Status() : value.error());
      if (value) one(*value);
    } else if constexpr (requires { T::fields(*this, value); }) {
      T::fields(*this, value);
    } else {
      fields(*this, value);
    }
  }

  meta::Writer& writer_;
};

class In {
 public:
  explicit In(meta::Reader& reader) : reader_(reader) {}

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  template <class T>
  void list(std::vector<T>& list, size_t max) {
    const uint64_t count = reader_.varint();
    reader_.require(count <= max);
    // Grows with what is there, whatever the count says.
    for (uint64_t i = 0; i < count && reader_.going(); ++i) {
      if constexpr (kIsResult<T>) {
        T value = Code::corrupt;
        one(value);
        list.push_back(std::move(value));
      } else {
        one(list.emplace_back());
      }
    }
  }
  template <class Choice>
  void plain(Choice& value) {
    value = static_cast<Choice>(reader_.byte());
  }

 private:
  template <class T>
  void one(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = choice(2) == 1;
    } else if constexpr (std::is_same_v<T, uint8_t>) {
      value = reader_.byte();
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      value = reader_.varint32();
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      value = reader_.varint();
    } else if constexpr (kIsId<T>) {
      one(value.value);
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(choice(kChoices<T>));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = reader_.string(limits::kTextBytesMax);
    } else if constexpr (std::is_same_v<T, meta::FileTime>) {
      const uint64_t raw = reader_.fixed64();
      reader_.require(raw <= meta::FileTime::kRawMax);
      if (reader_.going()) value = meta::FileTime::from_raw(raw);
    } else if constexpr (std::is_same_v<T, Status>) {
      // A later release may have codes that this one does not know.
      const uint32_t code = reader_.varint32();
      const uint32_t detail = reader_.varint32();
      reader_.require(code <= UINT16_MAX);
      value = Status(static_cast<Code>(code), detail);
    } else if constexpr (kIsOptional<T>) {
      if (choice(2) == 1) one(value.emplace());
    } else if constexpr (kIsResult<T>) {
      take_result(value);
    } else if constexpr (requires { T::fields(*this, value); }) {
      T::fields(*this, value);
    } else {
      fields(*this, value);
    }
  }
  template <class T>
  void take_result(Result<T>& result) {
    Status status;
    one(status);
    if (!status.ok()) {
      result = status;
      return;
    }
    reader_.require(status.detail() == 0);
    T value{};
    one(value);
    result = std::move(value);
  }
  uint8_t choice(uint8_t count) {
    const uint8_t value = reader_.byte();
    reader_.require(value < count);
    return reader_.going() ? value : 0;
  }

  meta::Reader& reader_;
};

}  // namespace penstock::meta_net
