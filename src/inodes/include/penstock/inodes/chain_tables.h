// Which chains directories may choose for their new files.
#pragma once

#include <optional>
#include <vector>

#include "penstock/engine.h"
#include "penstock/meta.h"

namespace penstock::inodes {

// Chains that are made alike, with numbers that follow one another.
struct ChainTable {
  uint32_t id = 0;  // 0: the chains that the node has by itself
  uint32_t chain_first = 0;
  uint32_t chain_count = 0;
  uint8_t copies = 1;
  meta::Media media = meta::Media::any;  // any: of several kinds, or not known
  friend bool operator==(const ChainTable&, const ChainTable&) = default;
};

// The tables that are offered at this moment. They may come, and grow, while a node runs; files and
// directories that use one keep the chains that they have. Thread safe.
class ChainTables {
 public:
  // From now on it may be chosen, in place of an earlier one with its number. Its chains are known
  // (ChainAddresses) before. invalid_argument if its fields are out of bounds, too_large if there
  // are kTablesMax.
  Status offer(const ChainTable& table);

  // By their numbers.
  std::vector<ChainTable> all() const;
  std::optional<ChainTable> find(uint32_t id) const;

  // What chains are to be like.
  struct Wanted {
    uint8_t copies = 1;
    meta::Media media = meta::Media::any;  // any: of no matter which kind
    uint32_t present = 0;                  // the table that is preferred if it is like that
  };
  // The preferred table, or of those that are as wanted the one with the most chains: also if that
  // has so many more than the preferred one that the cluster has grown (kMuchLarger).
  std::optional<ChainTable> choose(const Wanted& wanted) const;

 private:
  mutable engine::Mutex mutex_;
  std::vector<ChainTable> tables_;  // by their numbers
};

}  // namespace penstock::inodes
