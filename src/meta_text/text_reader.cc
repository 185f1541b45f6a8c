#include "text_reader.h"

#include "limits.h"

#include <fmt/format.h>

namespace penstock::meta_text {

Outcome<std::optional<std::string_view>> TextReader::next() {
  ASSERT(begin_ <= end_ && end_ <= text_.size());
  const std::string_view last = std::string_view(text_).substr(begin_, end_ - begin_);
  checksum_ = crc32c(std::as_bytes(std::span(last)), checksum_);
  begin_ = end_;
  ++number_;
  size_t looked_at = begin_;
  while (true) {
    const size_t found = text_.find('\n', looked_at);
    const size_t length = (found == std::string::npos ? text_.size() : found) - begin_;
    if (length >= kLineBytesMax) {
      return Failure{Code::invalid_argument, fmt::format("line {}: is too long", number_)};
    }
    if (found != std::string::npos) {
      end_ = found + 1;
      return std::optional(std::string_view(text_).substr(begin_, length));
    }
    TRY_ASSIGN(const size_t more, refill());
    looked_at = begin_ + length;
    if (more > 0) continue;
    if (length == 0) return std::optional<std::string_view>();
    return Failure{Code::invalid_argument, fmt::format("line {}: ends too early", number_)};
  }
}

// Makes room for another piece behind what is there, and reads it; how much.
Outcome<size_t> TextReader::refill() {
  text_.erase(0, begin_);
  begin_ = end_ = 0;
  const size_t kept = text_.size();
  ASSERT(kept < kLineBytesMax);
  text_.resize(kept + kTextBytes);
  Outcome<size_t> more = source_.read(std::span(text_).subspan(kept));
  ASSERT(!more || *more <= kTextBytes);
  text_.resize(kept + (more ? *more : 0));
  return more;
}

}  // namespace penstock::meta_text
