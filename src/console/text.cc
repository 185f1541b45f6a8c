#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "penstock/console.h"

namespace penstock::console {
namespace {

std::string format(const char* pattern, double value, const char* unit) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), pattern, value, unit);
  return buffer.data();
}

// Three significant digits, so that columns stay narrow and differences visible.
std::string scaled(double value, double step, const std::vector<const char*>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const char* pattern = unit == 0 || value >= 100 ? "%.0f %s" : value >= 10 ? "%.1f %s" : "%.2f %s";
  return format(pattern, value, units[unit]);
}

// Columns that a terminal shows for UTF-8 text: continuation bytes take none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// How many letters must be changed, left out, put in or swapped with the next to make one of the
// other (optimal string alignment).
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> least(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& here = least[i][j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      here = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1,
                       least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) here = std::min(here, least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

}  // namespace

std::string human_bytes(double bytes) {
  return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string human_rate(double bytes_per_second) {
  return scaled(bytes_per_second, 1000, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"});
}

std::string human_count(double count) {
  std::string text = scaled(count, 1000, {"", "k", "M", "G"});
  if (text.back() == ' ') text.pop_back();
  return text;
}

std::string human_duration(double seconds) {
  std::array<char, 64> buffer;
  const auto whole = static_cast<uint64_t>(seconds);
  if (seconds < 10) {
    std::snprintf(buffer.data(), buffer.size(), "%.1f s", seconds);
  } else if (whole < 60) {
    std::snprintf(buffer.data(), buffer.size(), "%lu s", whole);
  } else if (whole < 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%lu m %02lu s", whole / 60, whole % 60);
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%lu h %02lu m", whole / 3600, whole / 60 % 60);
  }
  return buffer.data();
}

std::string nearest_word(const std::string& written, const std::vector<std::string>& words) {
  // Longer words are not compared: they are not misspelt words of ours, and take time.
  constexpr size_t kLengthMax = 32;
  if (written.size() < 2 || written.size() > kLengthMax) return "";
  std::string nearest;
  // A mistake for every three letters; of two words as near it is the one that begins alike.
  size_t least = 2 * std::min<size_t>(written.size() / 3, 2) + 2;
  for (const std::string& word : words) {
    if (word.starts_with(written)) return word;
    const size_t begins_alike = word.starts_with(written[0]) ? 0 : 1;
    const size_t far = 2 * distance(written, word) + begins_alike;
    if (far >= least) continue;
    least = far;
    nearest = word;
  }
  return nearest;
}

bool is_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && std::string(term) != "dumb";
}

bool Table::is_text(size_t column) const {
  return column == 0 || std::ranges::find(text_columns_, column) != text_columns_.end();
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string pad(widths[i] - width_of(rows_[r][i]), ' ');
      if (i > 0) line += "  ";
      line += is_text(i) ? rows_[r][i] + pad : pad + rows_[r][i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) {
      size_t total = widths.empty() ? 0 : 2 * (widths.size() - 1);
      for (const size_t width : widths) total += width;
      out += std::string(total, '-') + "\n";
    }
  }
  return out;
}

}  // namespace penstock::console
