// JSON for the libraries that speak it, by nlohmann's library, which is included here alone.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace penstock {

using Json = nlohmann::json;

// Foreign input: is_discarded() is true of the result when the text is not JSON.
inline Json parse_json(std::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

// What an object that is foreign has under a key; 0, nothing or false where that is missing, or
// something else, and where it is no object.
inline uint64_t number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}
inline std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}
inline bool flag_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace penstock
