// Log lines for operators, on standard error or in a file. Thread safe. The first that detects a
// fault logs it; the rest propagate the Status. Not for the hot path.
#pragma once

#include <fmt/core.h>
#include <string>
#include <string_view>

namespace penstock::log {

enum class Level { debug, info, warning, error, off };

// Until called, lines of level warning and above go to standard error.
void set_level(Level level);
// Appends to `path` from now on, instead of standard error. False if it cannot be opened.
bool set_file(const std::string& path);
void write(Level level, std::string_view message);

template <class... Arguments>
void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write(Level::debug, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write(Level::info, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write(Level::warning, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write(Level::error, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace penstock::log
