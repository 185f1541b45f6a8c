#include "penstock/lanes/ring.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <sys/eventfd.h>

#include "penstock/connection.h"

namespace penstock::lanes {
namespace {

// Rings of this process, so that a thread that ends can give its lanes back to those that are still
// there.
struct Registry {
  std::mutex mutex;
  std::map<uint64_t, Ring*> rings;
  uint64_t next_serial = 1;
};

// Never destroyed: threads may end after the process's other statics.
Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

}  // namespace

// The calling thread's lanes. The last one used is at hand; the others are found by search.
class ThreadLanes {
 public:
  ~ThreadLanes() {
    // In a forked child the lanes are the parent's, and the mutex may be held by a thread that the
    // child does not have.
    if (connection::is_forked(generation_)) return;
    const std::lock_guard lock(registry().mutex);
    for (const Entry& entry : entries_) {
      const auto ring = registry().rings.find(entry.serial);
      if (ring != registry().rings.end()) ring->second->abandon(entry.lane);
    }
  }

  Lane* find(uint64_t serial) {
    if (serial == last_.serial) return last_.lane;
    for (const Entry& entry : entries_) {
      if (entry.serial != serial) continue;
      last_ = entry;
      return entry.lane;
    }
    return nullptr;
  }
  void add(uint64_t serial, Lane* lane) {
    // Entries of rings that are gone are of no use, but cost no more than their memory.
    entries_.push_back({serial, lane});
    last_ = entries_.back();
  }
  void remove(uint64_t serial) {
    std::erase_if(entries_, [serial](const Entry& entry) { return entry.serial == serial; });
    last_ = {};
  }

 private:
  struct Entry {
    uint64_t serial = 0;
    Lane* lane = nullptr;
  };
  const uint64_t generation_ = connection::fork_generation();
  Entry last_;
  std::vector<Entry> entries_;
};

namespace {

ThreadLanes& thread_lanes() {
  thread_local ThreadLanes lanes;
  return lanes;
}

uint64_t next_serial() {
  const std::lock_guard lock(registry().mutex);
  return registry().next_serial++;
}

}  // namespace

Ring::Ring(Session& session, uint32_t id, ring::Geometry geometry)
    : session_(session),
      id_(id),
      serial_(next_serial()),
      geometry_(geometry),
      lanes_(geometry.lanes),
      uses_(geometry.lanes, Use::free) {
  const std::lock_guard lock(registry().mutex);
  registry().rings.emplace(serial_, this);
}

Ring::~Ring() {
  const std::lock_guard lock(registry().mutex);
  registry().rings.erase(serial_);
}

Outcome<std::shared_ptr<RingMemory>> Ring::make_memory() const {
  auto memory = std::make_shared<RingMemory>();
  TRY_ASSIGN(memory->shared,
             connection::SharedMemory::make("penstock-ring", geometry_.total_bytes()));
  memory->layout = ring::Memory::format(memory->shared.bytes(), geometry_);
  memory->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!memory->wake) {
    return Failure{Status::from_errno(errno),
                   std::string("ring: cannot make an eventfd: ") + std::strerror(errno)};
  }
  return memory;
}

void Ring::use(std::shared_ptr<RingMemory> memory, uint64_t epoch) {
  ASSERT(memory != nullptr);
  const std::lock_guard lock(mutex_);
  newest_ = {std::move(memory), epoch};
}

RingUse Ring::newest() {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void Ring::pass_submitters() {
  std::vector<Lane*> lanes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& lane : lanes_) {
      if (lane != nullptr) lanes.push_back(lane.get());
    }
  }
  // Without the lock: a thread that submits may need it to move to another connection.
  for (Lane* const lane : lanes) lane->pass_submitter();
}

void Ring::rouse_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    if (lane == nullptr) continue;
    lane->let_go_of_cache();
    lane->rouse();
  }
}

void Ring::end_transfers() {
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    if (lane != nullptr) lane->end_transfers();
  }
}

Lane* Ring::claim() {
  uint32_t chosen = geometry_.lanes;
  {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < geometry_.lanes && chosen == geometry_.lanes; ++i) {
      // Operations of a thread that has ended may have completed since.
      if (uses_[i] == Use::abandoned && lanes_[i]->idle()) uses_[i] = Use::free;
      if (uses_[i] == Use::free) chosen = i;
    }
    if (chosen < geometry_.lanes) uses_[chosen] = Use::taken;
  }
  if (chosen == geometry_.lanes) return nullptr;
  if (lanes_[chosen] == nullptr) {
    // Made outside of the lock, which its constructor takes.
    auto lane = std::make_unique<Lane>(*this, chosen);
    const std::lock_guard lock(mutex_);
    lanes_[chosen] = std::move(lane);
  }
  return lanes_[chosen].get();
}

bool Ring::release(Lane* lane) {
  if (!lane->idle()) return false;
  lane->reset();
  const std::lock_guard lock(mutex_);
  uses_[lane->index()] = Use::free;
  return true;
}

void Ring::abandon(Lane* lane) {
  lane->discard_completions();
  if (release(lane)) return;
  const std::lock_guard lock(mutex_);
  uses_[lane->index()] = Use::abandoned;
}

Lane* Ring::lane_of_thread() {
  ThreadLanes& mine = thread_lanes();
  Lane* lane = mine.find(serial_);
  if (lane != nullptr) return lane;
  lane = claim();
  if (lane != nullptr) mine.add(serial_, lane);
  return lane;
}

bool Ring::leave_thread() {
  Lane* lane = thread_lanes().find(serial_);
  if (lane == nullptr) return true;
  if (!release(lane)) return false;
  thread_lanes().remove(serial_);
  return true;
}

}  // namespace penstock::lanes
