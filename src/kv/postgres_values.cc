#include "postgres_values.h"

namespace penstock::kv::postgres {
namespace {

// Types as the server numbers them (its catalogue pg_type, which never changes these).
constexpr uint32_t kBool = 16;
constexpr uint32_t kBytea = 17;
constexpr uint32_t kInt8 = 20;
constexpr uint32_t kXid = 28;

void append(std::string& to, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    to.push_back(static_cast<char>(value >> shift));
  }
}

// One dimension, from element 1 on.
std::string array_of(uint32_t type, size_t elements, bool has_nulls) {
  std::string array;
  append(array, elements == 0 ? 0 : 1, 4);
  append(array, has_nulls ? 1 : 0, 4);
  append(array, type, 4);
  if (elements == 0) return array;
  append(array, elements, 4);
  append(array, 1, 4);
  return array;
}

}  // namespace

Arguments& Arguments::int4(uint32_t value) {
  append(values_.emplace_back(), value, 4);
  return *this;
}

Arguments& Arguments::int8(uint64_t value) {
  append(values_.emplace_back(), value, 8);
  return *this;
}

Arguments& Arguments::int8s(const std::vector<uint64_t>& values) {
  std::string array = array_of(kInt8, values.size(), false);
  for (const uint64_t value : values) {
    append(array, 8, 4);
    append(array, value, 8);
  }
  values_.push_back(std::move(array));
  return *this;
}

Arguments& Arguments::booleans(const std::vector<bool>& values) {
  std::string array = array_of(kBool, values.size(), false);
  for (const bool value : values) {
    append(array, 1, 4);
    append(array, value ? 1 : 0, 1);
  }
  values_.push_back(std::move(array));
  return *this;
}

Arguments& Arguments::byteas(const std::vector<std::string_view>& values) {
  std::string array = array_of(kBytea, values.size(), false);
  for (const std::string_view value : values) {
    append(array, value.size(), 4);
    array.append(value);
  }
  values_.push_back(std::move(array));
  return *this;
}

Arguments& Arguments::versions(const std::vector<Version>& values) {
  std::string array = array_of(kXid, values.size(), true);
  for (const Version& value : values) {
    if (!value) {
      append(array, UINT32_MAX, 4);  // NULL
      continue;
    }
    append(array, 4, 4);
    append(array, *value, 4);
  }
  values_.push_back(std::move(array));
  return *this;
}

std::optional<uint64_t> Answer::number(int row, int column) const {
  const std::string_view text = bytes(row, column);
  if (text.size() != 4 && text.size() != 8) return std::nullopt;
  uint64_t value = 0;
  for (const char byte : text) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

}  // namespace penstock::kv::postgres
