// What directories say of the layouts of their new files, also as text: the values of two extended
// attributes that every file and directory has, and that are not listed. docs/layouts.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/meta.h"
#include "penstock/open_files.h"

namespace penstock::client {

// What is not given stays as it is.
struct LayoutChange {
  std::optional<uint64_t> chunk_bytes = {};
  std::optional<uint32_t> stripe = {};  // chains of a file; 0: all of the table
  // With one of these two, a table that has such chains is chosen, as it is at that moment.
  std::optional<uint32_t> copies = {};
  std::optional<meta::Media> media = {};
};

inline constexpr std::string_view kLayoutXattr = "penstock.layout";
inline constexpr std::string_view kTablesXattr = "penstock.tables";

// "any", "flash", "disk", "memory".
std::string_view name_of(meta::Media media);
std::optional<meta::Media> media_of(std::string_view name);

// "chunk=4194304 stripe=8 copies=3 media=flash table=1 chains=100+64"; of files without the stripe,
// and with their chains one by one where they have a list: "chains=107,101".
std::string text_of(const meta::Layout& layout, bool is_directory);
// "table=1 copies=3 media=flash chains=100+64".
std::string text_of(const inodes::ChainTable& table);

// What is to change: some of chunk, stripe (a number or "all"), copies and media, as above.
// invalid_argument for anything else, and for nothing. The text is foreign input.
Result<LayoutChange> parse_layout_change(std::string_view text);

}  // namespace penstock::client
