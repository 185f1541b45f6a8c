#include "fabric.h"

#include <algorithm>
#include <sys/mman.h>

namespace penstock::test {

using engine::Access;
using verbs::Endpoint;
using verbs::MemoryId;
using verbs::QueuePairId;
using verbs::WindowId;
using verbs::WorkRequest;
namespace limits = verbs::limits;

SimDevice::SimDevice(SimFabric& fabric, NodeId node) : fabric_(fabric), node_(node) {
  facts_.name = "sim" + std::to_string(fabric_.devices_.size());
  fabric_.devices_.push_back(this);
}

SimDevice::~SimDevice() {
  ASSERT(memories_.empty() && windows_.empty());
  std::erase(fabric_.devices_, this);
}

void SimDevice::lose() {
  gone_ = true;
  events_.push_back({});
}

Result<QueuePairId> SimDevice::create_queue_pair() {
  if (gone_) return Code::io_error;
  auto pair = std::make_unique<SimFabric::Pair>();
  pair->owner = this;
  pair->number = ++fabric_.last_number_;
  pair->first_packet = static_cast<uint32_t>(fabric_.random.below(1 << 24));
  const QueuePairId id{pair->number};
  fabric_.pairs_.emplace(id.value, std::move(pair));
  return id;
}

Endpoint SimDevice::endpoint(QueuePairId id) const {
  return {.queue_pair = id.value,
          .first_packet = fabric_.pairs_.at(id.value)->first_packet,
          .mtu = 5,
          .reads = limits::kReadsMax};
}

Status SimDevice::connect(QueuePairId id, const Endpoint& other) {
  if (gone_) return Code::io_error;
  TRY(on_connect());
  SimFabric::Pair& pair = *fabric_.pairs_.at(id.value);
  ASSERT(pair.owner == this && pair.state == SimFabric::Pair::State::made);
  pair.other = other.queue_pair;
  pair.state = SimFabric::Pair::State::joined;
  ++fabric_.counts.joined;
  return Code::ok;
}

void SimDevice::break_queue_pair(QueuePairId id) {
  SimFabric::Pair& pair = *fabric_.pairs_.at(id.value);
  ASSERT(pair.owner == this);
  fabric_.break_pair(pair, Code::cancelled);
}

void SimDevice::destroy_queue_pair(QueuePairId id) {
  SimFabric::Pair& pair = *fabric_.pairs_.at(id.value);
  ASSERT(pair.owner == this && pair.state == SimFabric::Pair::State::broken);
  if (!fabric_.faults.windows_stay_open) {
    for (const auto& [number, opening] : windows_) ASSERT(opening.pair != id.value);
  }
  if (pair.copied) fabric_.copy(pair);
  fabric_.pairs_.erase(id.value);
}

Result<MemoryId> SimDevice::register_memory(MutableBytes bytes, bool writable) {
  ASSERT(!bytes.empty());
  if (gone_) return Code::io_error;
  if (registered_bytes_ + bytes.size() > registered_bytes_max) return Code::no_memory;
  registered_bytes_ += bytes.size();
  ++registrations;
  const MemoryId id{++last_id_};
  memories_[id.value] = {bytes, writable};
  return id;
}

Result<MemoryId> SimDevice::register_device_memory(const verbs::Region& region) {
  if (!takes_device_memory) return Code::not_supported;
  TRY_ASSIGN(const MemoryId id, register_memory(region.bytes, true));
  constexpr uint64_t kPage = 4096;
  const uint64_t into_page = region.dma_buf_offset % kPage;
  const uint64_t length = into_page + region.bytes.size();
  void* const address = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, region.dma_buf,
                               static_cast<off_t>(region.dma_buf_offset - into_page));
  ASSERT(address != MAP_FAILED);
  Memory& memory = memories_.at(id.value);
  memory.mapped = {static_cast<std::byte*>(address), length};
  memory.behind = memory.mapped.data() + into_page;
  return id;
}

void SimDevice::deregister_memory(MemoryId id) {
  const auto found = memories_.find(id.value);
  ASSERT(found != memories_.end());
  ASSERT(found->second.windows == 0 || fabric_.faults.windows_stay_open);
  fabric_.finish_copies(*this, id);
  registered_bytes_ -= found->second.bytes.size();
  const MutableBytes mapped = found->second.mapped;
  if (!mapped.empty()) ::munmap(mapped.data(), mapped.size());
  memories_.erase(found);
}

bool SimDevice::holds(MemoryId id, MutableBytes bytes, bool to_write) const {
  const auto found = memories_.find(id.value);
  if (found == memories_.end() || (to_write && !found->second.writable)) return false;
  const MutableBytes all = found->second.bytes;
  return range_within(static_cast<uint64_t>(bytes.data() - all.data()), bytes.size(), all.size());
}

Result<verbs::Window> SimDevice::create_window() {
  if (gone_) return Code::io_error;
  const uint32_t number = ++last_id_;
  windows_[number].key = number << 8;
  return verbs::Window{WindowId{number}, number << 8};
}

void SimDevice::destroy_window(WindowId id) {
  const auto found = windows_.find(id.value);
  ASSERT(found != windows_.end());
  if (const uint32_t pair = found->second.pair; pair != 0) {
    ASSERT(fabric_.faults.windows_stay_open || gone_ ||
           fabric_.pairs_.at(pair)->state == SimFabric::Pair::State::broken);
    close(found->second);
  }
  windows_.erase(found);
}

void SimDevice::close(Opening& opening) {
  opening.pair = 0;
  const auto memory = memories_.find(opening.memory.value);
  if (memory != memories_.end()) --memory->second.windows;
}

Status SimDevice::bind(uint32_t pair, const WorkRequest& request) {
  const auto found = windows_.find(request.window.value);
  ASSERT(found != windows_.end() && !request.local.empty());
  Opening& opening = found->second;
  if (opening.pair != 0) {
    if (!fabric_.faults.windows_stay_open) return Code::invalid_argument;
    close(opening);
  }
  const bool place = request.access == Access::place;
  if (request.key >> 8 != opening.key >> 8 || request.key == opening.key ||
      !holds(request.memory, request.local, place)) {
    return Code::invalid_argument;
  }
  opening = {request.key, pair, request.local, request.memory, request.access};
  ++memories_.at(request.memory.value).windows;
  return Code::ok;
}

bool SimDevice::invalidate(uint32_t pair, uint32_t key) {
  const auto found = windows_.find(key >> 8);
  if (found == windows_.end() || found->second.key != key || found->second.pair != pair)
    return false;
  if (!fabric_.faults.windows_stay_open) close(found->second);
  return true;
}

std::byte* SimDevice::reach(uint32_t pair, uint32_t key, uint64_t address, uint64_t length,
                            Access access) {
  const auto found = windows_.find(key >> 8);
  if (found == windows_.end()) return nullptr;
  const Opening& opening = found->second;
  if (opening.key != key || opening.pair != pair || opening.access != access) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(opening.bytes.data());
  if (!range_within(address - start, length, opening.bytes.size())) return nullptr;
  std::byte* const at = opening.bytes.data() + (address - start);
  const auto memory = memories_.find(opening.memory.value);
  if (memory == memories_.end() || memory->second.behind == nullptr) return at;
  return memory->second.behind + (at - memory->second.bytes.data());
}

Status SimDevice::post(QueuePairId id, const WorkRequest& request) {
  if (gone_) return Code::io_error;
  SimFabric::Pair& pair = *fabric_.pairs_.at(id.value);
  ASSERT(pair.owner == this && pair.state != SimFabric::Pair::State::made);
  ASSERT(pair.posted.size() + pair.flying.size() < limits::kWorkMax);
  if (pair.state == SimFabric::Pair::State::broken) {
    late_.push_back({.id = request.id, .status = Code::cancelled});
  } else {
    pair.posted.push_back(request);
  }
  fabric_.changed();
  return Code::ok;
}

Status SimDevice::post_receive(uint64_t id, MutableBytes buffer, MemoryId memory) {
  if (gone_) return Code::io_error;
  ASSERT(holds(memory, buffer, true));
  ASSERT(receives_.size() < size_t{limits::kLinksMax} * limits::kReceivesOfLink);
  receives_.push_back({id, buffer});
  fabric_.changed();
  return Code::ok;
}

size_t SimDevice::poll(std::span<verbs::Completion> completions) {
  if (fabric_.clock == nullptr) {
    for (uint64_t left = fabric_.random.below(steps_each_poll + 1); left > 0; --left) {
      if (!fabric_.step()) break;
    }
  }
  const size_t count = has_news() ? std::min(completions.size(), ready_.size()) : 0;
  std::copy_n(ready_.begin(), count, completions.begin());
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::optional<verbs::Event> SimDevice::next_event() {
  if (events_.empty()) return std::nullopt;
  const verbs::Event event = events_.front();
  events_.pop_front();
  return event;
}

}  // namespace penstock::test
