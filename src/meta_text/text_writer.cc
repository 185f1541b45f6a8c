#include "text_writer.h"

namespace penstock::meta_text {

Outcome<void> TextWriter::begin() {
  text_.clear();
  checksum_ = 0;
  return sink_.begin();
}

Outcome<void> TextWriter::end(const Counts& counts) {
  TRY(flush());
  std::string last;
  append(last, EndLine{counts, checksum_});
  return sink_.write(last);
}

Outcome<void> TextWriter::flush() {
  checksum_ = crc32c(std::as_bytes(std::span(text_)), checksum_);
  TRY(sink_.write(text_));
  text_.clear();
  return {};
}

}  // namespace penstock::meta_text
