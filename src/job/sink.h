// Where output goes: a terminal, a pipe, a file, a socket, that others write to as well. Nothing of
// it waits for a slow reader, and its file description stays as it is for those others.
#pragma once

#include "loop.h"

#include <functional>
#include <string>
#include <string_view>

namespace penstock::job {

// Of the loop's thread.
class Sink {
 public:
  // `fd` is lent. `eased` is called when it has room again after it had none.
  Sink(Loop& loop, int fd, std::function<void()> eased);
  ~Sink();

  // Takes the whole text, always: who has much asks has_room() before.
  void write(std::string_view text);
  bool has_room() const;
  bool is_empty() const { return waiting_.empty(); }
  // Its reader is gone, or nothing more can be written: everything is dropped from here on.
  bool is_broken() const { return broken_; }

 private:
  // How much of it was taken; negative as of write(2).
  ssize_t write_once(std::string_view text) const;
  void flush();
  void wait_for_room();

  Loop& loop_;
  const std::function<void()> eased_;
  int fd_ = -1;
  UniqueFd own_;  // a description without blocking
  bool is_socket_ = false;
  bool may_block_ = false;  // it can only be asked, and be given little
  bool was_full_ = false;
  bool broken_ = false;
  std::string waiting_;
  Loop::Token token_ = 0;
};

}  // namespace penstock::job
