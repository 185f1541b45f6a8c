// Standard streams of ranks whose launcher is on another machine: pipes at their ends, and frames
// between. No more is under way than limits.h says, so that a reader that is slow holds up who
// writes, and nothing else of the job.
#pragma once

#include "loop.h"

#include <functional>
#include <string>
#include <string_view>

#include "penstock/base.h"

namespace penstock::job {

// Bytes for the other side; empty: its end.
using Give = std::function<void(std::string_view)>;

// Takes what is printed into a pipe. Of the loop's thread.
class OutputStream {
 public:
  // With `whole_lines` nothing is given that ends within a line: others' lines come between.
  OutputStream(Loop& loop, bool whole_lines, Give give)
      : loop_(loop), whole_lines_(whole_lines), give_(std::move(give)) {}
  ~OutputStream();

  // The end that is written. Once.
  Result<UniqueFd> open();
  // So many bytes were passed on.
  void took(size_t bytes);
  // Nobody reads any more: who writes is told by the kernel.
  void close();
  // All whose output counts have ended: what is in the pipe is given, and no more. May be called
  // again.
  void finish();
  bool is_finished() const { return finished_; }

 private:
  void watch();
  void take();
  void give(bool all);

  Loop& loop_;
  const bool whole_lines_;
  const Give give_;
  UniqueFd from_;
  Loop::Token token_ = 0;
  size_t under_way_ = 0;
  std::string begun_;       // of a line
  size_t left_ = SIZE_MAX;  // that is still taken
  bool finishing_ = false;
  bool finished_ = false;
};

// Puts what comes into a pipe, for one rank. Of the loop's thread.
class InputStream {
 public:
  // `took` is called with what the pipe took; 0: nobody reads it any more.
  InputStream(Loop& loop, std::function<void(size_t)> took) : loop_(loop), took_(std::move(took)) {}
  ~InputStream();

  // The end that is read. Once.
  Result<UniqueFd> open();
  // Empty: its end. False: more than may be under way.
  bool take(std::string_view bytes);

 private:
  void flush();
  void close();

  Loop& loop_;
  const std::function<void(size_t)> took_;
  UniqueFd to_;
  Loop::Token token_ = 0;
  std::string waiting_;
  bool at_end_ = false;
};

// Reads a launcher's own standard input: a file, a pipe, or a terminal, as long as the launcher is
// in its foreground. Of the loop's thread.
class InputSource {
 public:
  // `fd` is lent.
  InputSource(Loop& loop, int fd, Give give);
  ~InputSource();

  void begin();
  void took(size_t bytes);
  void stop();

 private:
  void watch();
  void read();
  // False: there is no more.
  bool read_once();

  Loop& loop_;
  const int fd_;
  const Give give_;
  const bool is_terminal_;
  bool always_ready_ = false;  // a file
  bool over_ = true;
  Loop::Token token_ = 0;
  Loop::Token again_ = 0;
  size_t under_way_ = 0;
};

}  // namespace penstock::job
