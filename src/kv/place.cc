// What a database of names says of itself: docs/formats/store-directory.md.
#include <algorithm>
#include <array>

#include "penstock/kv_move.h"

namespace penstock::kv {
namespace {

using State = Place::State;

constexpr std::string_view kFirstLine = "penstock-place 1";
constexpr std::array<std::string_view, 3> kStates = {"filling", "here", "moved"};
constexpr size_t kPlaceBytesMax = 4096;

bool is_id(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The rest of a line that begins with `word` and a space; takes it from `text`.
std::optional<std::string_view> take(std::string_view& text, std::string_view word) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  if (!line.starts_with(word) || line.size() <= word.size() || line[word.size()] != ' ') {
    return std::nullopt;
  }
  text.remove_prefix(end + 1);
  return line.substr(word.size() + 1);
}

}  // namespace

std::string encode(const Place& place) {
  ASSERT(is_id(place.store) && is_id(place.copy));
  ASSERT((place.state == State::moved) == is_id(place.to_copy));
  ASSERT(place.to.find('\n') == std::string::npos);
  std::string text = fmt::format("{}\nstore {}\ncopy {}\nstate {}\n", kFirstLine, place.store,
                                 place.copy, kStates[static_cast<size_t>(place.state)]);
  if (place.state == State::moved) {
    text += fmt::format("to_copy {}\nto {}\n", place.to_copy, place.to);
  }
  ASSERT(text.size() <= kPlaceBytesMax);
  return text;
}

std::optional<Place> decode_place(std::string_view bytes) {
  if (bytes.size() > kPlaceBytesMax || !bytes.starts_with(kFirstLine)) return std::nullopt;
  bytes.remove_prefix(kFirstLine.size());
  if (!bytes.starts_with('\n')) return std::nullopt;
  bytes.remove_prefix(1);
  Place place;
  const auto store = take(bytes, "store");
  const auto copy = take(bytes, "copy");
  const auto state = take(bytes, "state");
  if (!store || !copy || !state || !is_id(*store) || !is_id(*copy)) return std::nullopt;
  place.store = *store;
  place.copy = *copy;
  const auto found = std::find(kStates.begin(), kStates.end(), *state);
  if (found == kStates.end()) return std::nullopt;
  place.state = static_cast<State>(found - kStates.begin());
  if (place.state == State::moved) {
    const auto to_copy = take(bytes, "to_copy");
    const auto to = take(bytes, "to");
    if (!to_copy || !to || !is_id(*to_copy)) return std::nullopt;
    place.to_copy = *to_copy;
    place.to = *to;
  }
  return bytes.empty() ? std::optional(place) : std::nullopt;
}

Result<std::optional<Place>> place_of(engine::Kv& kv) {
  std::optional<std::string> value;
  TRY(kv.run(engine::KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
    TRY_ASSIGN(value, transaction.get(kPlaceKey));
    return {};
  }));
  if (!value) return std::optional<Place>();
  const std::optional<Place> place = decode_place(*value);
  if (!place) return Code::corrupt;
  return place;
}

Status set_place(engine::Kv& kv, const Place& place) {
  return kv.run(engine::KvMode::write_durable, [&](engine::KvTransaction& transaction) -> Status {
    transaction.put(kPlaceKey, encode(place));
    return {};
  });
}

}  // namespace penstock::kv
