#include "shares.h"

#include <algorithm>

namespace penstock::sessions {

Shares::Shares(const Context& context, client::Terms& user_terms, client::Terms& session_terms,
               AnnounceAll announce_all)
    : context_(context),
      terms_{&user_terms, &session_terms},
      announce_all_(std::move(announce_all)),
      shares_(context.node.shards.size()) {}

Shares::~Shares() {
  const auto is_none = [](const auto& share) { return share == nullptr; };
  ASSERT(std::all_of(shares_.begin(), shares_.end(), is_none));
}

serving::ShardShare& Shares::make(uint32_t shard, const std::shared_ptr<arena::Segment>& segment) {
  ASSERT(shard < shares_.size());
  {
    // Most are there: lists of files ask each time, and do not wait for what is taken from shares.
    const std::shared_lock lock(mutex_);
    if (shares_[shard] != nullptr) return *shares_[shard];
  }
  const std::unique_lock lock(mutex_);
  if (shares_[shard] != nullptr) return *shares_[shard];
  SessionShard& home = *context_.node.shards[shard];
  ASSERT(segment == nullptr || home.fills != nullptr);
  auto share = std::make_unique<serving::ShardShare>(
      *home.loop, *home.client, home.rings.routes(), serving::ShardCache{home.fills, segment},
      context_.account, terms_, [this](const char* why) { context_.end_broken(why); });
  announce_all_(share->announced());
  context_.at_once_on_shard(shard, [&] { home.rings.add(*share); });
  shares_[shard] = std::move(share);
  return *shares_[shard];
}

serving::ShardShare& Shares::at(uint32_t shard) const {
  const std::shared_lock lock(mutex_);
  ASSERT(shard < shares_.size() && shares_[shard] != nullptr);
  return *shares_[shard];
}

void Shares::announce(const std::function<void(serving::Announced&)>& add) const {
  for (const auto& share : shares_) {
    if (share != nullptr) add(share->announced());
  }
}

void Shares::take(const std::function<bool(serving::ShardShare&)>& is_unused,
                  const std::function<void(serving::ShardShare&, engine::Op&)>& remove) const {
  for (uint32_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i] == nullptr || is_unused(*shares_[i])) continue;
    context_.on_shard(i, [&](engine::Op& done) { remove(*shares_[i], done); });
  }
}

uint64_t Shares::operations() const {
  const std::shared_lock lock(mutex_);
  uint64_t operations = 0;
  for (const auto& share : shares_) operations += share != nullptr ? share->operations() : 0;
  return operations;
}

void Shares::end() {
  const std::unique_lock lock(mutex_);
  for (uint32_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i] == nullptr) continue;
    context_.at_once_on_shard(i, [&] {
      context_.node.shards[i]->rings.remove(*shares_[i]);
      shares_[i].reset();
    });
  }
}

}  // namespace penstock::sessions
