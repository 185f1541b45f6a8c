#include "gpu.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

namespace penstock::test {

Reached& reached() {
  static Reached all;
  return all;
}

void SimulatedDevices::Gpu::synchronize_all() {
  std::vector<DeviceQueue*> all;
  {
    const std::lock_guard lock(mutex_);
    all = known_;
  }
  for (DeviceQueue* const queue : all) queue->synchronize();
  default_.synchronize();
}

Outcome<MutableBytes> SimulatedDevices::Gpu::make_memory(uint64_t bytes) {
  const std::string what = fmt::format("GPU {}: make {} bytes of memory", number_, bytes);
  if (!take(bytes)) return Failure{Code::no_memory, what + ": out of memory"};
  TRY_ASSIGN(UniqueFd file, make_device_file(number_, bytes, what));
  void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (begin == MAP_FAILED)
    return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
  const MutableBytes made(static_cast<std::byte*>(begin), bytes);
  reached().add(made.data(), made.size());
  const std::lock_guard lock(mutex_);
  made_.push_back({made, std::move(file)});
  return made;
}

MutableBytes SimulatedDevices::Gpu::make_programs_memory(uint64_t bytes) {
  const MutableBytes made = host_words(bytes);
  const std::lock_guard lock(mutex_);
  programs_.push_back(made);
  return made;
}

bool SimulatedDevices::Gpu::is_programs(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  return std::any_of(programs_.begin(), programs_.end(), [&](MutableBytes one) {
    return at >= one.data() && at < one.data() + one.size();
  });
}

Outcome<UniqueFd> SimulatedDevices::Gpu::export_memory(const void* memory, uint64_t length,
                                                       const std::string& what) {
  const std::lock_guard lock(mutex_);
  for (const Made& one : made_) {
    if (one.bytes.data() != memory || one.bytes.size() < length) continue;
    UniqueFd copy(::fcntl(one.file.get(), F_DUPFD_CLOEXEC, 0));
    if (copy) return copy;
    return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
  }
  return Failure{Code::invalid_argument, what + ": no memory that was made begins there"};
}

MutableBytes SimulatedDevices::Gpu::host_words(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  // Whole pages, as the driver pins them.
  const uint64_t length = align_up(bytes, kSimulatedPage);
  auto& words = host_words_.emplace_back(
      static_cast<std::byte*>(std::aligned_alloc(kSimulatedPage, length)), &std::free);
  ASSERT(words != nullptr);
  const MutableBytes made(words.get(), bytes);
  std::memset(made.data(), 0, made.size());
  reached().add(made.data(), made.size());
  return made;
}

}  // namespace penstock::test
