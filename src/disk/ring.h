// One io_uring with as many of its features as this kernel has.
#pragma once

#include <liburing.h>
#include <string>

#include "penstock/base.h"

namespace penstock::disk {

// Why io_uring cannot serve here; empty when it can. Found out by doing a small operation with a
// ring of its own, as containers forbid io_uring in several ways.
std::string why_no_uring();

// One thread at a time.
class Ring {
 public:
  static constexpr unsigned kFilesMax = 1024;    // a table may not exceed RLIMIT_NOFILE, often 1024
  static constexpr unsigned kBuffersMax = 2048;  // slots, each for up to 1 GiB

  Ring() = default;
  ~Ring() { close(); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Room for `entries` operations in flight.
  Status create(unsigned entries);
  void close();

  bool has_file_table() const { return file_table_; }
  bool has_buffer_table() const { return buffer_table_; }
  Status set_file(unsigned index, int fd);  // -1 empties the entry
  Status set_buffer(unsigned slot, MutableBytes memory);

  io_uring& raw() { return ring_; }

  // Submission entries that the kernel has not taken yet.
  unsigned unsubmitted() const { return io_uring_sq_ready(&ring_); }
  unsigned completed() const { return io_uring_cq_ready(&ring_); }
  // Completions that appear only when the kernel is entered.
  bool wants_enter() const;

 private:
  io_uring ring_{};
  bool open_ = false;
  bool file_table_ = false;
  bool buffer_table_ = false;
};

}  // namespace penstock::disk
