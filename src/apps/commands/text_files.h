// Where `penstock metadata` writes the namespace as text, and reads it from.
#pragma once

#include <memory>
#include <string>

#include "penstock/base.h"
#include "penstock/meta_text.h"

namespace penstock::apps {

// A dump on its way. One thread uses it.
class DumpFile : public meta_text::Sink {
 public:
  // A file that comes beside `path` and takes its place in finish(), for its owner alone. An empty
  // path: standard output, in which nothing can begin anew.
  static Outcome<std::unique_ptr<DumpFile>> open(const std::string& path);
  // The text is complete: now it is under its name, on stable storage. Without it nothing is left.
  virtual Outcome<void> finish() = 0;
};

// A text that is read. An empty path, or "-": standard input.
Outcome<std::unique_ptr<meta_text::Source>> open_dump(const std::string& path);

}  // namespace penstock::apps
