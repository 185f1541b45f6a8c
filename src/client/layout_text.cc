#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

#include "penstock/client/layout.h"

namespace penstock::client {
namespace {

constexpr std::array<std::string_view, meta::kMediaNumbers> kMediaNames{"any", "flash", "disk",
                                                                        "memory"};

Result<uint64_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return Code::invalid_argument;
  return number;
}

// One word, as "copies=3"; each at most once.
Status parse_word(std::string_view word, LayoutChange& change) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return Code::invalid_argument;
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  if (key == "media" && !change.media) {
    change.media = media_of(value);
    return change.media ? Code::ok : Code::invalid_argument;
  }
  if (key == "stripe" && value == "all" && !change.stripe) {
    change.stripe = 0;
    return Code::ok;
  }
  TRY_ASSIGN(const uint64_t number, parse_number(value));
  if (number == 0) return Code::invalid_argument;
  if (key == "chunk" && !change.chunk_bytes) {
    change.chunk_bytes = number;
    return Code::ok;
  }
  if (number > UINT32_MAX) return Code::invalid_argument;
  if (key == "stripe" && !change.stripe) {
    change.stripe = static_cast<uint32_t>(number);
  } else if (key == "copies" && !change.copies) {
    change.copies = static_cast<uint32_t>(number);
  } else {
    return Code::invalid_argument;
  }
  return Code::ok;
}

}  // namespace

std::string_view name_of(meta::Media media) {
  const auto number = static_cast<uint8_t>(media);
  ASSERT(number < kMediaNames.size());
  return kMediaNames[number];
}

std::optional<meta::Media> media_of(std::string_view name) {
  const auto* const found = std::find(kMediaNames.begin(), kMediaNames.end(), name);
  if (found == kMediaNames.end()) return std::nullopt;
  return static_cast<meta::Media>(found - kMediaNames.begin());
}

std::string text_of(const meta::Layout& layout, bool is_directory) {
  std::string text = fmt::format("chunk={}", layout.chunk_bytes());
  if (is_directory) {
    text += layout.stripe == 0 ? " stripe=all" : fmt::format(" stripe={}", layout.stripe);
  }
  text += fmt::format(" copies={} media={} table={} chains=", layout.copies, name_of(layout.media),
                      layout.table);
  if (layout.chains.empty()) {
    return text + fmt::format("{}+{}", layout.chain_first, layout.chain_count);
  }
  ASSERT(!is_directory);
  for (size_t i = 0; i < layout.chains.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ",", layout.chains[i].value);
  }
  return text;
}

std::string text_of(const inodes::ChainTable& table) {
  return fmt::format("table={} copies={} media={} chains={}+{}", table.id, table.copies,
                     name_of(table.media), table.chain_first, table.chain_count);
}

Result<LayoutChange> parse_layout_change(std::string_view text) {
  LayoutChange change;
  bool any = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    TRY(parse_word(word, change));
    any = true;
  }
  if (!any) return Code::invalid_argument;
  ASSERT(change.chunk_bytes || change.stripe || change.copies || change.media);
  return change;
}

}  // namespace penstock::client
