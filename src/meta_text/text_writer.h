// Lines on their way to a sink: gathered, counted into the checksum, and written in large pieces.
#pragma once

#include "limits.h"
#include "lines.h"

#include <string>

#include "penstock/meta_text.h"

namespace penstock::meta_text {

class TextWriter {
 public:
  // The sink outlives the writer.
  explicit TextWriter(Sink& sink) : sink_(sink) { text_.reserve(kTextBytes + kLineBytesMax); }

  // The text begins, perhaps once more.
  Outcome<void> begin();
  template <class AnyLine>
  Outcome<void> add(const AnyLine& line) {
    append(text_, line);
    if (text_.size() < kTextBytes) return {};
    return flush();
  }
  // The last line, with the checksum of all that was added.
  Outcome<void> end(const Counts& counts);
  // After end().
  uint32_t checksum() const { return checksum_; }

 private:
  Outcome<void> flush();

  Sink& sink_;
  std::string text_;
  uint32_t checksum_ = 0;
};

}  // namespace penstock::meta_text
