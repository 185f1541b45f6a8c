// JSON for the libraries that speak it, by nlohmann's library, which is included here alone.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace penstock {

using Json = nlohmann::json;

// Foreign input: is_discarded() is true of the result when the text is not JSON.
inline Json parse_json(std::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

}  // namespace penstock
