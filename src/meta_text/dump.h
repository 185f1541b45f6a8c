// The way from records to lines.
#pragma once

#include "text_writer.h"

#include <string>

#include "penstock/meta_text.h"

namespace penstock::meta_text {

struct Dumped {
  Counts counts;
  uint32_t checksum = 0;  // as the last line says it
};

// As dump(), of a store that `needs_version`, or of one that is being loaded and has none yet.
Outcome<Dumped> dump_records(engine::Kv& kv, engine::Random& random, Sink& sink,
                             bool needs_version);

}  // namespace penstock::meta_text
