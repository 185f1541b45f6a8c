#include "penstock/serving/shard_share.h"

#include "served_ring.h"

#include <algorithm>
#include <utility>

#include "penstock/wire.h"

namespace penstock::serving {

// A ring that has left, on its way to the turn in which it is destroyed.
struct ShardShare::RetiredRing : engine::Op {
  engine::Loop* loop = nullptr;
  engine::Op* done = nullptr;  // of the call that asked for the ring's end
  std::unique_ptr<ServedRing> ring;
};

ShardShare::ShardShare(engine::Loop& loop, client::Client& client, RouteCounters& routes,
                       ShardCache cache, std::shared_ptr<resources::Account> account,
                       SessionTerms terms, std::function<void(const char*)> on_broken)
    : loop_(loop),
      client_(client),
      routes_(routes),
      cache_(std::move(cache)),
      account_(std::move(account)),
      terms_(terms),
      on_broken_(std::move(on_broken)) {}

ShardShare::~ShardShare() = default;

void ShardShare::join(client::Flow& user) {
  flow_.join(&user, terms_.session);
  batches_.join(&flow_, nullptr);
}

ServedFile* ShardShare::file(uint32_t id) {
  if (id >= files_.size() || files_[id].file == nullptr) [[unlikely]] {
    client::FileRef announced = announced_.take_file(id);
    if (announced == nullptr) return nullptr;
    add_file(id, std::move(announced));
  }
  ServedFile& file = files_[id];
  return file.leaving == nullptr ? &file : nullptr;
}

ServedRegion* ShardShare::region(uint32_t id) {
  if (id >= regions_.size() || regions_[id].bytes.data() == nullptr) [[unlikely]] {
    const ServedRegion announced = announced_.take_region(id);
    if (!announced.present()) return nullptr;
    add_region(id, announced);
  }
  ServedRegion& region = regions_[id];
  return region.present() ? &region : nullptr;
}

void ShardShare::add_file(uint32_t id, client::FileRef file) {
  ASSERT(id < wire::kFilesMax);
  if (files_.size() <= id) files_.resize(TableRoom::entries_for(id));
  ASSERT(files_[id].file == nullptr);
  files_[id].file = std::move(file);
}

void ShardShare::remove_file(uint32_t id, engine::Op& done) {
  ASSERT(id < files_.size() && files_[id].file != nullptr && files_[id].leaving == nullptr);
  files_[id].leaving = &done;
  ++files_[id].in_flight;
  release_file(id);
}

void ShardShare::release_file(uint32_t id) {
  ServedFile& file = files_[id];
  ASSERT(file.in_flight > 0);
  if (--file.in_flight > 0 || file.leaving == nullptr) return;
  engine::Op& done = *file.leaving;
  file = {};
  loop_.complete(done, Code::ok);
}

void ShardShare::add_region(uint32_t id, const ServedRegion& region) {
  ASSERT(id < wire::kRegionsMax);
  if (regions_.size() <= id) regions_.resize(TableRoom::entries_for(id));
  ASSERT(regions_[id].bytes.data() == nullptr);
  regions_[id] = region;
}

void ShardShare::remove_region(uint32_t id, engine::Op& done) {
  ASSERT(id < regions_.size() && regions_[id].present());
  regions_[id].leaving = &done;
  ++regions_[id].in_flight;
  release_region(id);
}

void ShardShare::release_region(uint32_t id) {
  ServedRegion& region = regions_[id];
  ASSERT(region.in_flight > 0);
  if (--region.in_flight > 0 || region.leaving == nullptr) return;
  engine::Op& done = *region.leaving;
  region = {};
  loop_.complete(done, Code::ok);
}

size_t ShardShare::find(uint32_t ring) const {
  size_t at = 0;
  while (at < rings_.size() && rings_[at]->id() != ring) ++at;
  return at;
}

void ShardShare::wake(size_t ring) {
  if (ring < awake_) return;
  std::swap(rings_[ring], rings_[awake_++]);
  ASSERT(awake_ <= rings_.size());
  // They have changed their places: a round that is under way begins again.
  if (looks_left_ > 0) looks_left_ = dozing();
}

void ShardShare::add_ring(uint32_t id, const ring::Memory& memory,
                          const resources::BusGuard* guard) {
  ASSERT(rings_.size() < wire::kRingsMax && find(id) == rings_.size());
  rings_.push_back(std::make_unique<ServedRing>(*this, id, memory, guard));
  wake(rings_.size() - 1);
}

void ShardShare::remove_ring(uint32_t id, engine::Op& done) {
  const size_t ring = find(id);
  ASSERT(ring < rings_.size());
  ServedRing& served = *rings_[ring];
  wake(ring);
  served.leave(done);
}

// Called from within the ring, so the ring is destroyed in a later turn, outside of it.
void ShardShare::ring_left(ServedRing& ring) {
  ring.publish();
  auto* const retired = new RetiredRing;
  retired->loop = &loop_;
  retired->done = ring.leaving_;
  const size_t at = find(ring.id());
  ASSERT(at < awake_);
  ASSERT(retired->done != nullptr);
  retired->ring = std::move(rings_[at]);
  rings_.erase(rings_.begin() + static_cast<ptrdiff_t>(at));
  --awake_;
  if (looks_left_ > 0) looks_left_ = dozing();
  retired->completion = [](engine::Op& op) {
    const std::unique_ptr<RetiredRing> self(&static_cast<RetiredRing&>(op));
    // The free list is empty before its elements go.
    while (self->ring->free_.pop_front() != nullptr) {
    }
    self->ring.reset();
    self->loop->complete(*self->done, Code::ok);
  };
  loop_.complete(*retired, Code::ok);
}

void ShardShare::cancel(uint32_t ring, uint32_t lane, uint32_t slot, uint32_t sequence) {
  const size_t at = find(ring);
  if (at == rings_.size()) return;
  ServedRing& served = *rings_[at];
  wake(at);
  // What was submitted before the request came is taken first, so that it can be found.
  served.poll();
  served.cancel(lane, slot, sequence);
}

bool ShardShare::poll() {
  bool worked = false;
  for (size_t i = 0; i < awake_;) {
    ServedRing& ring = *rings_[i];
    worked |= ring.poll();
    if (ring.dozes()) {
      std::swap(rings_[i], rings_[--awake_]);
      // A round that is under way would look at this one instead of another.
      if (looks_left_ > 0) looks_left_ = dozing();
    } else {
      ++i;
    }
  }
  return look_at_dozing() || worked;
}

// True while there is more to be looked at before the loop may sleep.
bool ShardShare::look_at_dozing() {
  bool woken = false;
  for (size_t looks = std::min(limits::kDozingPerTurn, dozing()); looks > 0; --looks) {
    if (next_look_ < awake_ || next_look_ >= rings_.size()) next_look_ = awake_;
    if (next_look_ >= rings_.size()) break;
    if (looks_left_ > 0) --looks_left_;
    if (rings_[next_look_]->was_called()) {
      wake(next_look_);
      woken = true;
    } else {
      ++next_look_;
    }
  }
  return woken || looks_left_ > 0;
}

bool ShardShare::prepare_sleep() {
  if (looks_left_ > 0) return false;
  for (size_t i = 0; i < awake_; ++i) {
    if (!rings_[i]->prepare_sleep()) return false;
  }
  return true;
}

void ShardShare::woke() {
  for (size_t i = 0; i < awake_; ++i) rings_[i]->woke();
  called();
}

void ShardShare::broken(const char* why) {
  if (is_broken_) return;
  is_broken_ = true;
  on_broken_(why);
}

}  // namespace penstock::serving
