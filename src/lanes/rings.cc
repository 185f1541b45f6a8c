#include "penstock/lanes/rings.h"

#include "penstock/lanes/session.h"

namespace penstock::lanes {

Rings::Rings(Session& session) : session_(session) {}

Outcome<Ring*> Rings::make(uint32_t entries, uint32_t lanes) {
  const Result<ring::Geometry> geometry = ring::Geometry::make(entries, lanes);
  if (!geometry) {
    return Failure{geometry.error(), fmt::format("create ring: 1 to {} entries and 1 to {} lanes",
                                                 ring::kEntriesMax, ring::kLanesMax)};
  }
  uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<uint32_t> number = numbers_.take();
    if (!number) {
      return Failure{Code::busy,
                     fmt::format("this session has {} rings, which is the limit", wire::kRingsMax)};
    }
    id = *number;
  }
  connection::Connection& connection = session_.connection();
  auto ring = std::make_unique<Ring>(session_, id, *geometry);
  Ring* const raw = ring.get();
  Outcome<std::shared_ptr<RingMemory>> memory = ring->make_memory();
  connection::Connection::Answer answer = memory ? connection::Connection::Answer(wire::ReplyBody{})
                                                 : connection::Connection::Answer(memory.error());
  if (memory) {
    const MutableBytes bytes = (*memory)->shared.bytes();
    const auto keep = [&](const wire::ReplyBody&) {
      (*memory)->shared.close_fd();
      const std::lock_guard lock(mutex_);
      ASSERT(ring != nullptr && !rings_.contains(id));
      ring->use(*memory, connection.epoch());
      rings_[id] = std::move(ring);
    };
    answer = connection.establish(wire::CreateRing{id, bytes.size()},
                                  {(*memory)->shared.fd(), (*memory)->wake.get()}, keep);
  }
  if (!answer) {
    const std::lock_guard lock(mutex_);
    numbers_.give_back(id);
    return answer.error();
  }
  session_.cache().want();
  return raw;
}

Outcome<void> Rings::destroy(Ring* ring) {
  std::unique_ptr<Ring> owned;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(ring->id());
    if (found == rings_.end() || found->second.get() != ring) {
      return Failure{Code::invalid_argument, "destroy ring: there is no such ring"};
    }
    owned = std::move(found->second);
    rings_.erase(found);
  }
  if (session_.transfers().first() != nullptr) owned->end_transfers();
  const connection::Connection::Answer answer =
      session_.connection().call(wire::DestroyRing{owned->id()}, true);
  const std::lock_guard lock(mutex_);
  numbers_.give_back(owned->id());
  if (answer || answer.error().status == Code::bad_handle ||
      answer.error().status == Code::peer_gone) {
    return {};
  }
  return answer.error();
}

void Rings::destroy_all() {
  while (session_.connection().connected()) {
    Ring* ring = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (rings_.empty()) return;
      ring = rings_.begin()->second.get();
    }
    if (!destroy(ring)) return;
  }
}

void Rings::let_go_of(connection::Region&) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, ring] : rings_) ring->pass_submitters();
}

Status Rings::set_up_again(const Ask& ask) {
  made_again_.clear();
  const std::lock_guard lock(mutex_);
  for (const auto& [id, ring] : rings_) {
    Outcome<std::shared_ptr<RingMemory>> memory = ring->make_memory();
    if (!memory) return memory.error().status;
    const MutableBytes bytes = (*memory)->shared.bytes();
    TRY(ask(wire::CreateRing{id, bytes.size()}, {(*memory)->shared.fd(), (*memory)->wake.get()}));
    (*memory)->shared.close_fd();
    made_again_.push_back({id, std::move(*memory)});
  }
  return Code::ok;
}

void Rings::connected_again(uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  for (MadeAgain& made : made_again_) {
    const auto found = rings_.find(made.ring);
    // One that was destroyed meanwhile has no lanes that could use it.
    if (found != rings_.end()) found->second->use(std::move(made.memory), epoch);
  }
  made_again_.clear();
}

void Rings::epoch_changed() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, ring] : rings_) ring->rouse_all();
}

}  // namespace penstock::lanes
