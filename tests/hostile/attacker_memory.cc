// Regions: shared memory that changes and shrinks while the node uses it. All of it is written
// through descriptors, as this process must not die of what it does to itself.
#include "attacker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace penstock::test {
namespace {

constexpr size_t kMemoriesMax = 12;
constexpr uint64_t kMemoryBytes = 256 * kKiB;

void fill(int fd, uint64_t size) {
  static const std::string kContent(64 * kKiB, 'x');
  for (uint64_t at = 0; at < size; at += kContent.size()) {
    const size_t length = std::min<uint64_t>(kContent.size(), size - at);
    (void)!::pwrite(fd, kContent.data(), length, static_cast<off_t>(at));
  }
}

}  // namespace

// Two huge pages, where this machine has any to give.
UniqueFd Attacker::make_huge_memory(uint64_t* size) {
  UniqueFd fd(::memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  *size = 4 * kMiB;
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(*size)) != 0 ||
      ::fallocate(fd.get(), 0, 0, static_cast<off_t>(*size)) != 0) {
    fd.reset();
  }
  return fd;
}

void Attacker::make_memory(bool steady) {
  Memory made;
  made.steady = steady;
  if (chance(10)) made.fd = make_huge_memory(&made.size);
  if (!made.fd) {
    made.size = (1 + below(kMemoryBytes / 4096)) * 4096;
    made.fd.reset(::memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!made.fd || ::ftruncate(made.fd.get(), static_cast<off_t>(made.size)) != 0) return;
    // Some pages, or all.
    fill(made.fd.get(), steady || chance(80) ? made.size : below(made.size));
  }
  if (chance(steady ? 50 : 10)) ::fcntl(made.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  if (chance(3)) ::fcntl(made.fd.get(), F_ADD_SEALS, F_SEAL_WRITE);
  const std::lock_guard lock(mutex_);
  if (memories_.size() < kMemoriesMax) {
    memories_.push_back(std::move(made));
  } else {
    memories_[below(memories_.size())] = std::move(made);
  }
}

// All of some memory, or a part; the same memory may be several regions.
void Attacker::register_memory(uint32_t region, bool steady) {
  UniqueFd fd;
  uint64_t size = 0;
  {
    const std::lock_guard lock(mutex_);
    std::vector<const Memory*> like;
    for (const Memory& memory : memories_) {
      if (memory.steady == steady) like.push_back(&memory);
    }
    if (like.empty()) return;
    const Memory& memory = *like[below(like.size())];
    fd.reset(::fcntl(memory.fd.get(), F_DUPFD_CLOEXEC, 0));
    size = memory.size;
  }
  uint64_t offset = 0;
  if (chance(15)) offset = chance(80) ? below(size / 4096) * 4096 : below(size);
  size -= offset;
  if (chance(15)) size = 1 + below(size);
  const uint64_t id = ++last_id_;
  const Result<std::string> bytes =
      wire::encode(wire::Request{id, wire::RegisterRegion{region, offset, size}});
  if (!bytes || !fd || !send_bytes(*bytes, {fd.get()})) return;
  asked_[id] = wire::RequestBody(wire::RegisterRegion{}).index();
  if (regions_[region] == 0) regions_[region] = size;
}

void Attacker::change_memory(engine::Random& random) {
  const std::lock_guard lock(mutex_);
  if (memories_.empty()) return;
  const Memory& memory = memories_[random.below(memories_.size())];
  const int fd = memory.fd.get();
  const auto at = static_cast<off_t>(random.below(memory.size));
  // Steady memory only has other bytes from time to time.
  switch (memory.steady ? 9 : random.below(10)) {
    case 0:
      (void)!::ftruncate(fd, at);
      break;
    case 1:
      (void)!::ftruncate(fd, 0);
      break;
    case 2:
    case 3:
      (void)!::ftruncate(fd, static_cast<off_t>(memory.size));
      fill(fd, memory.size);
      break;
    case 4:
      (void)!::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at & ~4095, 16384);
      break;
    default: {
      const uint64_t word = random.next();
      (void)!::pwrite(fd, &word, sizeof word, at);
    }
  }
}

}  // namespace penstock::test
