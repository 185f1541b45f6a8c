// Small files that a program keeps about itself: durable, and either whole or not there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "penstock/base/result.h"

namespace penstock {

inline constexpr size_t kKeptFileBytesMax = 4096;

// Replaces the file, by way of PATH.new.
Status keep_file(const std::string& path, std::string_view content, mode_t mode);
// At most kKeptFileBytesMax bytes of it. A symbolic link is not followed.
Result<std::string> read_kept_file(const std::string& path);
Status sync_directory(const std::string& path);

// Lines of a word and a value. Of two lines with one word the last counts.
std::map<std::string, std::string> words_of(const std::string& text);
// A decimal number that is the whole text.
bool parse_number(const std::string& text, uint64_t* value);

}  // namespace penstock
