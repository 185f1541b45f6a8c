// The shares of a session on the shards that serve its rings, and how they learn of its files and
// regions.
#pragma once

#include "context.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/engine.h"

namespace penstock::sessions {

// Thread safe. A share is made when the first ring of a shard needs it and lives until end(). Its
// lock comes before those of the tables of files and regions.
class Shares {
 public:
  // Makes all files, or regions, of a table known to a new share.
  using AnnounceAll = std::function<void(serving::Announced&)>;

  Shares(const Context& context, client::Terms& user_terms, client::Terms& session_terms,
         AnnounceAll announce_all);
  ~Shares();

  // The share of a shard; made, with the segment of the session's class, if there is none. Blocks
  // on the shard's loop.
  serving::ShardShare& make(uint32_t shard, const std::shared_ptr<arena::Segment>& segment);
  // One that was made.
  serving::ShardShare& at(uint32_t shard) const;

  // While this is held no share is made: what is announced to all shares, or taken from them, and
  // then noted in a table, or first taken from it, is missed by none.
  using Hold = std::shared_lock<engine::SharedMutex>;
  Hold hold() const { return Hold(mutex_); }
  // With a hold.
  void announce(const std::function<void(serving::Announced&)>& add) const;
  // Takes something from every share, and waits until no operation uses it. `is_unused` takes back
  // what was only announced.
  void take(const std::function<bool(serving::ShardShare&)>& is_unused,
            const std::function<void(serving::ShardShare&, engine::Op& done)>& remove) const;

  uint64_t operations() const;
  // No ring is left and no request runs.
  void end();

 private:
  const Context& context_;
  const serving::SessionTerms terms_;
  const AnnounceAll announce_all_;
  // Held while operations of a shard end.
  mutable engine::SharedMutex mutex_{engine::Held::across_calls};
  std::vector<std::unique_ptr<serving::ShardShare>> shares_;  // by shard; null: no ring is there
};

}  // namespace penstock::sessions
