// Output of ranks, in whole lines with the rank before each.
#pragma once

#include "loop.h"
#include "sink.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "penstock/base.h"

namespace penstock::job {

// Cuts what one rank prints into labelled lines. Knows no descriptors.
class Labeller {
 public:
  explicit Labeller(uint32_t rank) : label_("[" + std::to_string(rank) + "] ") {}
  explicit Labeller(std::string label) : label_(std::move(label)) {}

  // Appends the lines that are complete, and pieces of kLineBytesMax of one that does not end.
  void take(std::string_view text, std::string* lines);
  // What stands behind the last line's end, as a line.
  void finish(std::string* lines);

 private:
  const std::string label_;
  std::string begun_;
};

// One of the two outputs of all ranks. Of the loop's thread.
class LabelledOutput {
 public:
  // `fd` is lent.
  LabelledOutput(Loop& loop, int fd);
  ~LabelledOutput();

  // The end for a rank's process.
  Result<UniqueFd> open(uint32_t rank);
  // A line of the launcher's own.
  void say(std::string_view line) { sink_.write(line); }
  // All processes ended: takes what is left in pipes, and waits for no process that they started.
  void finish();
  bool is_written() const { return sink_.is_empty(); }

 private:
  struct Source {
    UniqueFd from;
    Labeller labeller;
    Loop::Token token = 0;  // 0: nothing is taken at present
  };

  bool watch(uint32_t rank, Source& source);
  // False at its end.
  bool read(Source& source);
  void take(uint32_t rank);
  void close(uint32_t rank);
  void go_on();

  Loop& loop_;
  Sink sink_;
  std::map<uint32_t, Source> sources_;
  bool paused_ = false;
};

}  // namespace penstock::job
