// How figures are shown to people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::console {

std::string human_bytes(double bytes);            // "1.5 GiB"
std::string human_rate(double bytes_per_second);  // "2.31 GB/s", decimal as links are sold
std::string human_count(double count);            // "52.3 k"
std::string human_duration(double seconds);       // "1 m 05 s"

// Of `words` the one that is written most alike, if it could well have been meant; else "".
std::string nearest_word(const std::string& written, const std::vector<std::string>& words);

// Whether standard output (or error) is a terminal that can redraw a line.
bool is_terminal(int fd);

// Columns aligned for a fixed-width font: the first to the left, the rest to the right, but for
// those that are said to be text.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::vector<size_t> text_columns = {})
      : rows_{std::move(header)}, text_columns_(std::move(text_columns)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  std::string text() const;

 private:
  bool is_text(size_t column) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> text_columns_;
};

}  // namespace penstock::console
