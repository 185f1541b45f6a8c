// Optimistic concurrency control: which keys changed since a snapshot was taken.
//
// Every key hashes to a version, the sequence number of the last commit that wrote such a key. A
// commit locks the versions of all it read (shared) and wrote (exclusive), in one global order;
// checks that nothing read has a version above its snapshot; writes; raises the versions of what it
// wrote. Since reads and writes are both locked from the check to the end of the write, two
// transactions that each overwrite, unread, what the other read cannot both pass.
#pragma once

#include "fair_lock.h"
#include "limits.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

namespace penstock::kv {

using Version = uint64_t;

class Versions {
 public:
  // The keys of one transaction. Not thread safe.
  class Footprint {
   public:
    void read(std::string_view key);
    void write(std::string_view key);

   private:
    friend class Versions;
    // With repetitions.
    std::vector<uint32_t> reads_;
    std::vector<uint32_t> writes_;
  };

  // Holds the locks of a footprint while it lives.
  class Guard {
   public:
    Guard(Versions& versions, const Footprint& footprint);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    // Whether nothing that was read changed after `snapshot`.
    bool unchanged_since(Version snapshot) const;
    // What was written has version `version` now.
    void raise(Version version);

   private:
    struct Held {
      uint32_t lock;
      bool exclusive;
    };
    Versions& versions_;
    const Footprint& footprint_;
    std::vector<Held> held_;
  };

  // Forgets all commits: no snapshot is older than they are. While there is no guard.
  void reset() { std::fill(values_.begin(), values_.end(), 0); }

 private:
  std::vector<Version> values_ = std::vector<Version>(kVersionCount);
  std::unique_ptr<FairLock[]> locks_ = std::make_unique<FairLock[]>(kVersionLocks);
};

}  // namespace penstock::kv
