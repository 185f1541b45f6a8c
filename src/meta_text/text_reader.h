// Lines from a source, with the checksum of what came before each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/meta_text.h"

namespace penstock::meta_text {

class TextReader {
 public:
  // The source outlives the reader.
  explicit TextReader(Source& source) : source_(source) {}

  // The next line without its end, valid until the next call; nothing at the end of the text.
  // invalid_argument: it is too long, or the text ends within it.
  Outcome<std::optional<std::string_view>> next();
  // Of that line, from 1.
  uint64_t number() const { return number_; }
  // CRC-32C of all bytes before that line.
  uint32_t checksum() const { return checksum_; }

 private:
  Outcome<size_t> refill();

  Source& source_;
  std::string text_;  // the line, what follows it, and before it nothing after refill()
  size_t begin_ = 0;  // of the line
  size_t end_ = 0;    // behind its end
  uint64_t number_ = 0;
  uint32_t checksum_ = 0;
};

}  // namespace penstock::meta_text
