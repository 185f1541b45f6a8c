// What the processes of one run share. One of them acts at a time, and only that one touches this.
#pragma once

#include "operation.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace penstock::differential {

struct Stamp {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};
struct Times {
  Stamp accessed, modified, changed;
};

// A pair of inodes that are the same file of the program.
struct Note {
  uint64_t host_inode = 0;  // with its generation; 0: free
  uint64_t mount_inode = 0;
  Times mount_times, host_times;  // when they were last looked at
  bool reserved = false;          // fallocate has given the host's file blocks without bytes
  bool mapped = false;            // changed through memory, and perhaps not written yet
  bool listed = false;
};

// Open addressing; a program makes far fewer files than this.
class Notes {
 public:
  static constexpr size_t kPlaces = size_t{1} << 16;
  // Nothing when the table is full. `fresh`: it was not there.
  Note* find(uint64_t host_inode, bool& fresh);
  // The number of the host's inode that an inode of the mount was noted with before; or 0.
  // Notes it when it was not.
  uint64_t partner(uint64_t mount_inode, uint64_t host_inode);

 private:
  struct Partner {
    uint64_t mount_inode = 0, host_inode = 0;
  };
  std::array<Note, kPlaces> notes_;
  std::array<Partner, kPlaces> partners_;
};

// How many rules of intended.h there may be.
inline constexpr size_t kRulesMax = 64;

struct Shared {
  std::atomic<uint32_t> step;   // the operation whose turn it is; its actor waits for that
  std::atomic<uint32_t> ended;  // one found a difference
  std::array<std::atomic<uint32_t>, kActors> bells;  // futexes; pair with `step`
  bool compare_blocks, has_copies;
  std::array<bool, kMountsMax> lost;        // its node is away
  std::array<bool, kMountsMax> stopped;     // and goes on within its lease; else it is as if killed
  std::array<uint32_t, kMountsMax> came;    // how often its node came back
  std::array<uint32_t, kMountsMax> killed;  // and how often as another process
  int64_t started;                          // seconds since 1970
  std::array<std::array<uint64_t, 2>, kKinds> answers;  // by kind: that succeeded, that failed
  std::array<uint64_t, kRulesMax> intended;             // differences that were meant, by rule
  std::array<char, 128> signature;
  std::array<char, 8192> difference;
  Notes notes;
};

}  // namespace penstock::differential
