// The file PENSTOCK in a database's directory: which process uses the database, and up to which
// sequence number it is known to be on stable storage.
//
// RocksDB cannot tell a log whose unsynced end was lost from one that was damaged further up: it
// stops at the first bad record. A database that comes back with less than the mark says has lost
// what was promised. The mark is written after each sync, without a sync of its own: whatever value
// survives a power cut was true when it was written. Format: docs/formats/metadata-mark.md.
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::kv {

class DurableMark {
 public:
  // Opens the mark of the database in `directory`, which exists, and locks it. Ends with in_use
  // when another process has it. If the file is missing it is made when `create` is set, else the
  // mark is not open and says 0.
  static Result<DurableMark> open(const std::string& directory, bool create, bool read_only);

  bool is_open() const { return static_cast<bool>(fd_); }
  uint64_t sequence() const { return sequence_; }
  // The file had content that does not verify.
  bool damaged() const { return damaged_; }
  // Never lowers it. Failures are ignored: an older mark is a weaker one, never a wrong one.
  void advance(uint64_t sequence);

 private:
  UniqueFd fd_;
  uint64_t sequence_ = 0;
  bool damaged_ = false;
};

}  // namespace penstock::kv
