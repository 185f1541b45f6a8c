#include "far_card.h"

#include "far_pair.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>

namespace penstock::symm {
namespace {

// The provider's ids have 63 bits.
constexpr uint32_t kSerialMask = 0x7fff'ffff;
constexpr size_t kPollAtOnce = 64;

}  // namespace

FarCard::FarCard(Options options)
    : provider_(std::move(options.provider)),
      segments_(options.segments),
      pinned_bytes_max_(options.pinned_bytes_max),
      part_bytes_(options.part_bytes),
      clock_(options.clock) {
  for (uint8_t segment = 0; segment < kSegments; ++segment) parts_[segment].resize(parts(segment));
}

Result<std::unique_ptr<FarCard>> FarCard::open(Options options) {
  std::unique_ptr<FarCard> card(new FarCard(std::move(options)));
  TRY(card->add_block(limits::kFarBuffer, limits::kFarBuffers, true));
  return card;
}

FarCard::~FarCard() {
  ASSERT(pairs_.empty());
  for (const std::vector<Part>& parts : parts_) {
    for (const Part& part : parts) {
      if (part.state == Part::State::registered) provider_->deregister_memory(part.memory);
    }
  }
  for (const Block& block : blocks_) {
    provider_->deregister_memory(block.memory);
    ::munmap(block.bytes.data(), block.bytes.size());
  }
}

// ---- memory

uint32_t FarCard::parts(uint8_t segment) const {
  return static_cast<uint32_t>((segments_[segment].size() + part_bytes_ - 1) / part_bytes_);
}

MutableBytes FarCard::bytes_of_part(uint8_t segment, uint32_t part) const {
  const uint64_t begin = part * part_bytes_;
  const MutableBytes all = segments_[segment];
  return all.subspan(begin, std::min<uint64_t>(part_bytes_, all.size() - begin));
}

std::optional<verbs::MemoryId> FarCard::part(uint8_t segment, uint32_t part) {
  Part& known = parts_[segment][part];
  if (known.state == Part::State::unknown) {
    known.state = Part::State::refused;
    const MutableBytes bytes = bytes_of_part(segment, part);
    if (pinned_bytes_ + bytes.size() > pinned_bytes_max_) return std::nullopt;
    const auto memory = provider_->register_memory(bytes, true);
    if (!memory) return std::nullopt;
    pinned_bytes_ += bytes.size();
    known = {Part::State::registered, *memory};
  }
  if (known.state == Part::State::refused) return std::nullopt;
  return known.memory;
}

std::optional<FarCard::Local> FarCard::local(const std::byte* at, uint64_t bytes) {
  for (uint8_t segment = 0; segment < kSegments; ++segment) {
    const MutableBytes all = segments_[segment];
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(all.data());
    if (offset >= all.size()) continue;
    const auto number = static_cast<uint32_t>(offset / part_bytes_);
    const auto memory = part(segment, number);
    if (!memory) return std::nullopt;
    const uint64_t rest = bytes_of_part(segment, number).size() - offset % part_bytes_;
    return Local{*memory, std::min(bytes, rest)};
  }
  return std::nullopt;
}

// Shared memory: what a child of fork() has of it are the same pages, which so stay where the card
// knows them.
Status FarCard::add_block(uint64_t slot_bytes, uint32_t count, bool is_buffer) {
  const uint64_t bytes = slot_bytes * count;
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return Status::from_errno(errno);
  const MutableBytes all(static_cast<std::byte*>(at), bytes);
  const auto memory = provider_->register_memory(all, true);
  if (!memory) {
    ::munmap(at, bytes);
    return memory.error();
  }
  blocks_.push_back({all, *memory});
  for (uint32_t i = 0; i < count; ++i) {
    slots_.push_back({all.data() + i * slot_bytes, *memory, is_buffer});
    release_slot(static_cast<uint32_t>(slots_.size() - 1));
  }
  return {};
}

std::optional<uint32_t> FarCard::take_slot(bool is_buffer) {
  std::vector<uint32_t>& free = is_buffer ? free_buffers_ : free_messages_;
  if (free.empty()) return std::nullopt;
  const uint32_t slot = free.back();
  free.pop_back();
  return slot;
}

void FarCard::release_slot(uint32_t slot) {
  (slots_[slot].is_buffer ? free_buffers_ : free_messages_).push_back(slot);
}

// ---- queue pairs

// The receives of all pairs are in one queue; each pair brings those that its peer has credit for.
Status FarCard::enter(FarPair* pair, verbs::QueuePairId id) {
  if (pairs_.size() >= verbs::limits::kLinksMax) return Code::busy;
  const uint32_t needed = 2 * limits::kFarReceives;
  if (free_messages_.size() < needed) TRY(add_block(limits::kFarMessageBytes, needed, false));
  receives_wanted_ += limits::kFarReceives;
  while (receives_ < receives_wanted_) {
    const uint32_t slot = *take_slot(false);
    ++receives_;
    if (const Status posted = post_receive(slot); !posted.ok()) {
      --receives_;
      release_slot(slot);
      receives_wanted_ -= limits::kFarReceives;
      return posted;
    }
  }
  pairs_[id.value] = pair;
  return {};
}

void FarCard::leave(FarPair* pair, verbs::QueuePairId id) {
  if (pairs_.erase(id.value) == 0) return;
  receives_wanted_ -= limits::kFarReceives;
  for (uint32_t index = 0; index < works_.size(); ++index) {
    FarWork& work = works_[index];
    if (work.pair != pair) continue;
    if (work.has_slot) release_slot(work.slot);
    work = FarWork{.serial = (work.serial + 1) & kSerialMask};
    free_works_.push_back(index);
  }
}

Status FarCard::post_receive(uint32_t slot) {
  return provider_->post_receive(slot, {slots_[slot].at, limits::kFarMessageBytes},
                                 slots_[slot].memory);
}

// Those of pairs that have ended are not posted any more.
void FarCard::receive_again(uint32_t slot) {
  if (receives_ <= receives_wanted_ && post_receive(slot).ok()) return;
  --receives_;
  release_slot(slot);
}

Status FarCard::post(verbs::QueuePairId id, verbs::WorkRequest request, FarWork work) {
  if (free_works_.empty()) {
    works_.emplace_back();
    free_works_.push_back(static_cast<uint32_t>(works_.size() - 1));
  }
  const uint32_t index = free_works_.back();
  work.serial = works_[index].serial;
  request.id = (uint64_t{work.serial} << 32) | index;
  TRY(provider_->post(id, request));
  free_works_.pop_back();
  works_[index] = work;
  return {};
}

bool FarCard::poll() {
  std::array<verbs::Completion, kPollAtOnce> completions;
  const size_t count = provider_->poll(completions);
  for (size_t i = 0; i < count; ++i) {
    if (completions[i].is_receive) {
      received(completions[i]);
    } else {
      completed(completions[i]);
    }
  }
  while (const auto event = provider_->next_event()) {
    // One that breaks may leave at once.
    std::vector<FarPair*> broken;
    for (const auto& [id, pair] : pairs_) {
      if (event->kind == verbs::EventKind::device_gone || event->queue_pair.value == id)
        broken.push_back(pair);
    }
    for (FarPair* const pair : broken) pair->break_by(Code::io_error);
  }
  return count != 0;
}

void FarCard::received(const verbs::Completion& completion) {
  const auto slot = static_cast<uint32_t>(completion.id);
  const auto found = pairs_.find(completion.queue_pair.value);
  if (found == pairs_.end()) return receive_again(slot);
  if (!completion.status.ok()) {
    found->second->break_by(completion.status);
    return receive_again(slot);
  }
  found->second->arrived(slot, completion.length);
}

// Of a pair that has ended it is not known any more.
void FarCard::completed(const verbs::Completion& completion) {
  const auto index = static_cast<uint32_t>(completion.id);
  ASSERT(index < works_.size());
  FarWork& known = works_[index];
  if (known.pair == nullptr || known.serial != completion.id >> 32) return;
  const FarWork work = known;
  known = FarWork{.serial = (work.serial + 1) & kSerialMask};
  free_works_.push_back(index);
  work.pair->completed(work, completion.status);
  if (work.has_slot) release_slot(work.slot);
}

}  // namespace penstock::symm
