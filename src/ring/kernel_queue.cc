#include "penstock/ring/kernel_queue.h"

#include <atomic>
#include <bit>
#include <cstring>

#include "penstock/ring/remainder.h"

namespace penstock::ring {

using device::Pair;

namespace {

using LongWord = std::atomic_ref<uint64_t>;

// Each half has its own parity, so they need not come at once. Acquire pairs with what a kernel did
// before it submitted.
Pair load(Pair& from) {
  return {LongWord(from.first).load(std::memory_order_acquire),
          LongWord(from.second).load(std::memory_order_acquire)};
}

// Release pairs with the fence behind a kernel's look at it: what a copy engine has brought is
// there.
void store(Pair& to, const Pair& value) {
  LongWord(to.second).store(value.second, std::memory_order_release);
  LongWord(to.first).store(value.first, std::memory_order_release);
}

}  // namespace

Result<KernelGeometry> KernelGeometry::make(uint32_t entries) {
  if (entries == 0 || entries > device::kEntriesMax) return Code::invalid_argument;
  return KernelGeometry{std::bit_ceil(std::max(entries, device::kEntriesMin))};
}

std::optional<uint32_t> lap_taken(uint64_t head, uint32_t index, uint32_t entries_log2) {
  ASSERT(entries_log2 < 32 && index >> entries_log2 == 0);
  const auto lap = static_cast<uint32_t>(head >> entries_log2);
  if (index < (head & ((uint64_t{1} << entries_log2) - 1))) return lap;
  // Of `head` itself: the number of laps begins anew after all that 32 bits have.
  if (head >> entries_log2 == 0) return std::nullopt;
  return lap - 1;
}

KernelQueue::KernelQueue(MutableBytes memory, KernelGeometry geometry)
    : memory_(memory),
      geometry_(geometry),
      log2_(static_cast<uint32_t>(std::countr_zero(geometry.entries))),
      header_(reinterpret_cast<device::Header*>(memory.data())),
      descriptors_(reinterpret_cast<Pair*>(memory.data() + device::kHeaderBytes)),
      answers_(reinterpret_cast<Pair*>(memory.data() + geometry.answers_offset())),
      again_(reinterpret_cast<uint64_t*>(memory.data() + geometry.again_offset())) {
  ASSERT(memory.size() >= geometry.host_bytes() && is_power_of_two(geometry.entries));
  ASSERT(geometry.entries <= device::kEntriesMax && is_aligned(memory.data(), sizeof(Pair)));
  *header_ = {device::kMagic, device::kVersion, geometry.entries, 0, 0};
  auto& control = *reinterpret_cast<device::Control*>(image().data());
  control = {{0, geometry.entries}, 0};
  fill(*reinterpret_cast<device::Constants*>(image().data() + geometry.constants_offset()));
}

MutableBytes KernelQueue::image() const {
  return memory_.subspan(geometry_.image_offset(), geometry_.device_bytes());
}

uint64_t KernelQueue::next_again() const {
  uint64_t& word = again_[again_head_ & (geometry_.entries - 1)];
  return LongWord(word).load(std::memory_order_acquire);
}

bool KernelQueue::has_work() const {
  const auto lap = static_cast<uint32_t>(head_ >> log2_);
  const Pair next = load(descriptors_[head_ & (geometry_.entries - 1)]);
  return (device::is_of_lap(next.first, lap) && device::is_of_lap(next.second, lap)) ||
         device::is_of_lap(next_again(), again_head_ >> log2_);
}

uint32_t KernelQueue::take(std::span<Taken> out) {
  uint32_t count = 0;
  // Not for ever, should a faulty kernel write them faster than they are taken.
  for (uint32_t looks = 0; looks < out.size() && count < out.size(); ++looks) {
    if (!device::is_of_lap(next_again(), again_head_ >> log2_)) break;
    if (take_again(&out[count])) ++count;
  }
  const uint32_t again = count;
  const uint64_t before = head_;
  while (count < out.size() && take_new(&out[count])) {
    // The first shows that more may have come: their lines are fetched side by side.
    if (++count == 1) prefetch(static_cast<uint32_t>(out.size()));
  }
  // Each new one is given once: pairs with lap_taken(), which tells by the head what was taken.
  ASSERT(count <= out.size() && head_ - before == count - again);
  return count;
}

void KernelQueue::prefetch(uint32_t count) const {
  constexpr uint32_t kLine = 64 / sizeof(Pair);
  for (uint32_t i = kLine; i < count; i += kLine) {
    __builtin_prefetch(&descriptors_[(head_ + i) & (geometry_.entries - 1)]);
  }
}

// For writing: a kernel that looks for the answer has taken its line.
void KernelQueue::prefetch_answer(uint32_t index) const {
  __builtin_prefetch(&answers_[index], 1);
}

// False when what asks is no position that was taken.
bool KernelQueue::take_again(Taken* out) {
  const device::Again asks = device::decode_again(next_again());
  ++again_head_;
  if (asks.index >= geometry_.entries) return false;
  const std::optional<uint32_t> lap = lap_taken(head_, asks.index, log2_);
  if (!lap) return false;
  *out = {asks.index, *lap, asks.attempt, asks.by_copy,
          device::decode_descriptor(load(descriptors_[asks.index]))};
  prefetch_answer(asks.index);
  return true;
}

bool KernelQueue::take_new(Taken* out) {
  const auto index = static_cast<uint32_t>(head_ & (geometry_.entries - 1));
  const auto lap = static_cast<uint32_t>(head_ >> log2_);
  const Pair next = load(descriptors_[index]);
  if (!device::is_of_lap(next.first, lap) || !device::is_of_lap(next.second, lap)) return false;
  *out = {index, lap, 0, false, device::decode_descriptor(next)};
  prefetch_answer(index);
  ++head_;
  return true;
}

void KernelQueue::answer(const Taken& to, const device::Answer& answer) {
  ASSERT(to.index < geometry_.entries);
  store(answers_[to.index], device::encode(answer, device::tag_of(to.lap, to.attempt)));
}

void KernelQueue::close() {
  std::atomic_ref(header_->closed).store(1, std::memory_order_release);
}

uint32_t KernelQueue::outstanding() const {
  device::Control control;
  std::memcpy(&control, image().data(), sizeof control);
  const uint64_t tail = control.tail_and_free.first;
  const uint64_t first = tail > geometry_.entries ? tail - geometry_.entries : 0;
  uint32_t count = 0;
  for (uint64_t position = first; position < tail; ++position) {
    uint32_t free_for = 0;
    const uint64_t index = position & (geometry_.entries - 1);
    std::memcpy(&free_for, image().data() + geometry_.free_for_offset() + index * 4, 4);
    if (free_for != static_cast<uint32_t>(position >> log2_) + 1) ++count;
  }
  ASSERT(count <= geometry_.entries);
  return count;
}

device::Ring KernelQueue::view(std::byte* gpu_part, std::byte* memory, uint64_t bytes) const {
  device::Ring ring{};
  ring.header = header_;
  ring.descriptors = descriptors_;
  ring.answers = answers_;
  ring.again = again_;
  ring.control = reinterpret_cast<device::Control*>(gpu_part);
  ring.constants =
      reinterpret_cast<const device::Constants*>(gpu_part + geometry_.constants_offset());
  ring.free_for = reinterpret_cast<uint32_t*>(gpu_part + geometry_.free_for_offset());
  ring.hints = reinterpret_cast<Pair*>(gpu_part + geometry_.hints_offset());
  ring.memory = reinterpret_cast<char*>(memory);
  ring.memory_bytes = bytes;
  ring.entries = geometry_.entries;
  ring.entries_log2 = log2_;
  return ring;
}

}  // namespace penstock::ring
