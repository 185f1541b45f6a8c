// Rings, with entries that are right, and some that are not; and rings that are written over while
// the node serves them.
#include "attacker.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace penstock::test {
namespace {

constexpr size_t kRingsHeldMax = 6;
constexpr uint64_t kFileBytes = 512 * kKiB;

template <class T>
void put(int fd, uint64_t at, const T& value) {
  (void)!::pwrite(fd, &value, sizeof value, static_cast<off_t>(at));
}

}  // namespace

void Attacker::make_ring(uint32_t id, bool rightly) {
  Ring made;
  made.id = id;
  made.geometry = {1U << below(8), static_cast<uint32_t>(1 + below(3))};
  const uint64_t size = align_up(made.geometry.total_bytes(), 4096);
  std::unique_ptr<std::byte, decltype(&std::free)> image(
      static_cast<std::byte*>(std::aligned_alloc(4096, size)), &std::free);
  std::memset(image.get(), 0, size);
  ring::Memory::format(MutableBytes(image.get(), size), made.geometry);
  if (!rightly) {
    for (uint64_t i = below(4); i > 0; --i) {
      const auto word = static_cast<uint32_t>(some_number());
      std::memcpy(image.get() + below(sizeof(ring::Header) / 4) * 4, &word, sizeof word);
    }
  }
  made.memory.reset(::memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.memory || ::ftruncate(made.memory.get(), static_cast<off_t>(size)) != 0) return;
  const uint64_t written = rightly ? size : below(size + 1);
  (void)!::pwrite(made.memory.get(), image.get(), written, 0);
  if (rightly || chance(50)) ::fcntl(made.memory.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  // Blocking ones, too: what the node waits for may be drained, and must not stop it.
  made.wake.reset(
      ::eventfd(chance(10) ? UINT32_MAX : 0, EFD_CLOEXEC | (chance(70) ? EFD_NONBLOCK : 0)));
  if (!made.wake) return;
  made.tails.resize(made.geometry.lanes);
  made.taken.resize(made.geometry.lanes);
  put(made.memory.get(), offsetof(ring::Header, lanes_used), made.geometry.lanes);
  const wire::RequestBody body =
      wire::CreateRing{id, rightly || chance(50) ? size : 1 + below(kTiB)};
  const Result<std::string> bytes = wire::encode(wire::Request{++last_id_, body});
  if (!bytes || !send_bytes(*bytes, {made.memory.get(), made.wake.get()})) return;
  asked_[last_id_] = body.index();
  if (rings_.size() >= kRingsHeldMax) rings_.erase(rings_.begin());
  rings_.push_back(std::move(made));
}

// One that a program could send.
ring::Submission Attacker::right_submission() {
  ring::Submission entry{};
  const uint64_t which = below(100);
  entry.operation = which < 45   ? ring::kOperationRead
                    : which < 88 ? ring::kOperationWrite
                    : which < 92 ? ring::kOperationSync
                    : which < 95 ? ring::kOperationNop
                                 : ring::kOperationFill;
  entry.file = static_cast<uint32_t>(below(4));
  entry.slot = static_cast<uint32_t>(random_.next());
  entry.sequence = static_cast<uint32_t>(below(4));
  entry.user_data = entry.operation;
  if (entry.operation == ring::kOperationSync || entry.operation == ring::kOperationNop) {
    return entry;
  }
  entry.region = static_cast<uint32_t>(below(6));
  const uint64_t room = std::max<uint64_t>(regions_[entry.region], 1);
  entry.length = 1 + below(std::min<uint64_t>(room, 128 * kKiB));
  entry.region_offset = below(room - entry.length + 1);
  // In few places, so that the store does not fill; some of them far away.
  entry.offset = below(kFileBytes) + (chance(5) ? below(4) * kGiB : 0);
  if (chance(60) && entry.length >= 4096) {
    entry.offset = align_down(entry.offset, 4096);
    entry.length = align_down(entry.length, 4096);
    entry.region_offset = align_down(entry.region_offset, 4096);
  }
  if (entry.operation == ring::kOperationWrite && chance(5)) entry.flags = ring::kFlagDurable;
  if (entry.operation == ring::kOperationFill) entry.region = entry.region_offset = 0;
  if (entry.operation == ring::kOperationRead && chance(10)) {
    entry.flags = chance(50) ? ring::kFlagChecksums : ring::kFlagRefuseHoles;
  }
  return entry;
}

// The same with something wrong.
ring::Submission Attacker::wrong_submission() {
  ring::Submission entry = right_submission();
  switch (below(9)) {
    case 0:
      entry.operation = static_cast<uint8_t>(below(256));
      break;
    case 1:
      entry.flags = static_cast<uint8_t>(below(256));
      break;
    case 2:
      entry.file = static_cast<uint32_t>(some_number());
      break;
    case 3:
      entry.region = static_cast<uint32_t>(some_number());
      break;
    case 4:
      entry.region_offset = some_number();
      break;
    case 5:
      entry.deadline = some_number();
      break;
    case 6:
      // Long ones read only: a write of 64 MiB is no more hostile than one of 128 KiB.
      if (entry.operation != ring::kOperationWrite) entry.length = some_number();
      break;
    case 7:
      if (entry.operation != ring::kOperationWrite) entry.offset = some_number();
      break;
    default:
      entry.checksum_region = static_cast<uint16_t>(below(3));
      entry.checksum_page = static_cast<uint32_t>(below(3));
  }
  return entry;
}

void Attacker::wake(Ring& ring) {
  // A descriptor that is full makes a blocking write wait for a reader who never comes.
  ::fcntl(ring.wake.get(), F_SETFL, O_NONBLOCK);
  ::eventfd_write(ring.wake.get(), chance(95) ? 1 : UINT64_MAX - 1);
  if (chance(10)) {
    eventfd_t value = 0;
    ::eventfd_read(ring.wake.get(), &value);
    if (chance(50)) ::fcntl(ring.wake.get(), F_SETFL, 0);
  }
}

void Attacker::take_completions(Ring& ring, uint32_t lane, uint32_t done) {
  uint32_t& taken = ring.taken[lane];
  // Where the ring was written over there are any number of them.
  if (done - taken > ring.geometry.entries) taken = done;
  for (; taken != done; ++taken) {
    ring::Completion one{};
    const auto at = static_cast<off_t>(ring.completion_at(lane, taken));
    if (::pread(ring.memory.get(), &one, sizeof one, at) != sizeof one) continue;
    const auto operation = static_cast<uint8_t>(one.user_data);
    if (one.result < 0) {
      tally_.add(Feat::refused_operations);
    } else if (operation == ring::kOperationRead || operation == ring::kOperationWrite) {
      if (one.result > 0)
        tally_.add(operation == ring::kOperationRead ? Feat::reads : Feat::writes);
    } else if (operation == ring::kOperationSync || operation == ring::kOperationFill) {
      tally_.add(operation == ring::kOperationSync ? Feat::syncs : Feat::fills);
    }
  }
}

void Attacker::use_ring() {
  if (rings_.empty()) return;
  Ring& ring = rings_[below(rings_.size())];
  const auto lane = static_cast<uint32_t>(below(ring.geometry.lanes));
  const uint64_t at = ring.lane_at(lane);
  const int memory = ring.memory.get();
  uint32_t done = 0;
  (void)!::pread(memory, &done, sizeof done,
                 static_cast<off_t>(at + offsetof(ring::LaneControl, completion_tail)));
  // Some never say that they have taken what came.
  if (chance(95)) {
    take_completions(ring, lane, done);
    put(memory, at + offsetof(ring::LaneControl, completion_head), done);
  }
  const uint64_t wrong_percent = chance(70) ? 0 : 20;
  for (uint64_t i = 1 + below(ring.geometry.entries); i > 0; --i) {
    const uint64_t index = ring.tails[lane] % ring.geometry.entries;
    put(memory, at + sizeof(ring::LaneControl) + index * sizeof(ring::Submission),
        chance(wrong_percent) ? wrong_submission() : right_submission());
    if (ring.tails[lane] + 1 - done > ring.geometry.entries && !chance(1)) break;
    ++ring.tails[lane];
  }
  put(memory, at + offsetof(ring::LaneControl, submission_tail), ring.tails[lane]);
  wake(ring);
}

void Attacker::scribble_ring() {
  if (rings_.empty()) return;
  Ring& ring = rings_[below(rings_.size())];
  const uint64_t size = ring.geometry.total_bytes();
  for (uint64_t i = 1 + below(8); i > 0; --i) {
    const bool control = chance(20);
    const uint64_t at =
        control ? ring.lane_at(0) + below(sizeof(ring::LaneControl) / 4) * 4 : below(size / 4) * 4;
    put(ring.memory.get(), at, static_cast<uint32_t>(some_number()));
  }
  wake(ring);
}

}  // namespace penstock::test
